#include "collector/generations.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

RingIdentity Ring(int32_t rank, int32_t pid, int64_t created_s, const std::string& host = "a", uint32_t restart = 0) {
  RingIdentity ring;
  ring.job = "train";
  ring.step = "0";
  ring.restart_count = restart;
  ring.uid = 1000;
  ring.boot_id = host;
  ring.pid = pid;
  ring.start_ticks = static_cast<uint64_t>(pid) * 7;
  ring.rank = rank;
  ring.world_size = 4;
  ring.created_real_ns = created_s * kSecond;
  return ring;
}

TEST(GenerationsTest, RanksOfOneStartAreOneGeneration) {
  Generations generations;
  const Placement first = generations.Place(Ring(0, 100, 1));
  EXPECT_TRUE(first.fresh);
  const Placement second = generations.Place(Ring(1, 101, 1, "b"));
  EXPECT_EQ(second.generation, first.generation);
  EXPECT_FALSE(second.fresh);
  EXPECT_EQ(generations.Place(Ring(0, 100, 1)).generation, first.generation) << "found again";
  EXPECT_EQ(generations.Find(first.generation)->processes, 2u);
  EXPECT_EQ(generations.Find(first.generation)->Name(), "train/0/0");
}

TEST(GenerationsTest, ARequeuedJobIsAnotherGenerationAlthoughItsOldRanksStillDie) {
  Generations generations;
  const GenerationId old = generations.Place(Ring(0, 100, 1)).generation;
  const GenerationId requeued = generations.Place(Ring(0, 200, 50, "b", 1)).generation;
  EXPECT_NE(requeued, old);
  EXPECT_EQ(generations.Place(Ring(1, 101, 1, "a", 0)).generation, old) << "a late ring of the old one";
  EXPECT_EQ(generations.Newest(1000, "train")->id, requeued);
  EXPECT_EQ(generations.Newest(1001, "train"), nullptr) << "another user's job of the same name";
}

TEST(GenerationsTest, AnElasticRestartThatKeepsTheCountIsToldByRanksStartedAnew) {
  Generations generations;
  GenerationId old = 0;
  for (int32_t rank = 0; rank < 4; ++rank) old = generations.Place(Ring(rank, 100 + rank, 1)).generation;
  for (int32_t rank = 0; rank < 4; ++rank) generations.Ended(Ring(rank, 100 + rank, 1));
  const Placement anew = generations.Place(Ring(2, 300, 60));
  EXPECT_TRUE(anew.fresh);
  EXPECT_NE(anew.generation, old);
  EXPECT_EQ(generations.Place(Ring(0, 301, 60, "b")).generation, anew.generation);
  EXPECT_EQ(generations.Find(anew.generation)->Name(), "train/0/0#2");
  EXPECT_EQ(generations.Find(old)->alive, 0u);
}

TEST(GenerationsTest, OldRingsFoundAfterTheNewOnesBeginAnOlderLife) {
  Generations generations;
  const GenerationId now = generations.Place(Ring(0, 300, 60)).generation;
  RingIdentity dead = Ring(0, 100, 1);
  dead.ended = true;
  const GenerationId old = generations.Place(dead).generation;
  EXPECT_NE(old, now);
  RingIdentity dead_too = Ring(1, 101, 1);
  dead_too.ended = true;
  generations.Place(dead_too);
  EXPECT_EQ(generations.Newest(1000, "train")->id, now);
  EXPECT_EQ(generations.Place(Ring(2, 302, 61)).generation, now);
}

TEST(GenerationsTest, ARestartInsideTheProcessesIsNoNewGeneration) {
  Generations generations;
  const RingIdentity process = Ring(0, 100, 1);
  const GenerationId life = generations.Saw(process, 0xaaaa).generation;
  EXPECT_EQ(generations.Saw(Ring(1, 101, 1), 0xaaaa).generation, life);
  // Same pid, all communicators made anew.
  const Placement again = generations.Saw(process, 0xbbbb);
  EXPECT_EQ(again.generation, life);
  EXPECT_FALSE(again.fresh);
  EXPECT_FALSE(again.moved);
  EXPECT_EQ(generations.All().size(), 1u);
}

TEST(GenerationsTest, TwoLivingProcessesOfOneRankAreSaidNotMerged) {
  Generations generations;
  const GenerationId life = generations.Place(Ring(0, 100, 1)).generation;
  const Placement twice = generations.Place(Ring(0, 150, 2, "b"));
  EXPECT_EQ(twice.generation, life);
  EXPECT_EQ(twice.duplicate_of_pid, 100);
}

TEST(GenerationsTest, ASilentHostsRanksMayBeStartedAnewElsewhere) {
  Generations generations;
  const GenerationId old = generations.Place(Ring(0, 100, 1)).generation;
  generations.Silent("a", true);
  EXPECT_EQ(generations.Place(Ring(0, 150, 2, "b")).duplicate_of_pid, 100) << "a second later it is no restart";
  const Placement anew = generations.Place(Ring(0, 200, 90, "c"));
  EXPECT_TRUE(anew.fresh);
  EXPECT_NE(anew.generation, old);
}

TEST(GenerationsTest, SharedCommunicatorsCorrectTheOrderOfDiscovery) {
  Generations generations;
  // The first life left a ring of rank 0 alone: the others died before they made a communicator.
  const GenerationId old = generations.Saw(Ring(0, 100, 1), 0xaaaa).generation;
  generations.Ended(Ring(0, 100, 1));
  // Of the second, rank 1 is found first: its place in the old life is free.
  EXPECT_EQ(generations.Saw(Ring(1, 201, 60), 0xbbbb).generation, old);
  const Placement rank0 = generations.Saw(Ring(0, 200, 60), 0xbbbb);
  EXPECT_NE(rank0.generation, old);
  EXPECT_EQ(generations.Of(Ring(1, 201, 60)), rank0.generation) << "it shares a communicator with rank 0";
  EXPECT_EQ(generations.Find(old)->processes, 1u);
  EXPECT_EQ(generations.Saw(Ring(2, 202, 60), 0xbbbb).generation, rank0.generation);
}

TEST(GenerationsTest, ACommunicatorOfAnotherJobMovesNobody) {
  Generations generations;
  RingIdentity other = Ring(0, 500, 1);
  other.job = "eval";
  const GenerationId eval = generations.Saw(other, 0xaaaa).generation;
  const GenerationId train = generations.Saw(Ring(0, 100, 1), 0xaaaa).generation;
  EXPECT_NE(eval, train);
  EXPECT_EQ(generations.Of(other), eval);
}

TEST(GenerationsTest, NamesWithSlashesAreNotTakenForOthers) {
  Generations generations;
  RingIdentity a = Ring(0, 1, 1), b = Ring(0, 2, 1);
  a.job = "x/1";
  a.step = "2";
  b.job = "x";
  b.step = "1/2";
  EXPECT_NE(generations.Place(a).generation, generations.Place(b).generation);
}

TEST(GenerationsTest, WhatIsDroppedIsForgotten) {
  Generations generations;
  const GenerationId life = generations.Saw(Ring(0, 100, 1), 0xaaaa).generation;
  generations.Drop(life);
  EXPECT_EQ(generations.Find(life), nullptr);
  EXPECT_EQ(generations.Of(Ring(0, 100, 1)), 0u);
  EXPECT_TRUE(generations.Place(Ring(0, 100, 1)).fresh);
}

}  // namespace
}  // namespace lockstep
