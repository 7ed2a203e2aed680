#include "analyzer/browser/explore/explore.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analyzer/browser/explore/assets.h"
#include "analyzer/viewdata/facts.h"

namespace lockstep {
namespace {

std::string CspHash(const ExploreAsset& asset) {
  const std::string bytes = absl::HexStringToBytes(std::string(asset.sha256));
  return absl::StrCat("'sha256-", absl::Base64Escape(bytes), "'");
}

std::string Policy(absl::string_view more) {
  return absl::StrCat("default-src 'none'; script-src ", CspHash(ExploreScript()), "; style-src ",
                      CspHash(ExploreStyle()), more, "; base-uri 'none'; form-action 'none'");
}

// Returns the page up to its data; BehindData returns the rest.
std::string BeforeData(const std::string& policy) {
  std::string page = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"",
      policy,
      "\">\n<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>Lockstep</title>\n<style>");
  page.append(ExploreStyle().text);
  page +=
      "</style></head>\n<body><noscript>This page needs JavaScript. A report made with --format html does "
      "not.</noscript>\n"
      "<script type=\"application/json\" id=\"data\">";
  return page;
}
std::string BehindData() {
  std::string page = "</script>\n<script>";
  page.append(ExploreScript().text);
  return page + "</script>\n</body></html>\n";
}

}  // namespace

std::string ExplorePolicy() { return Policy(""); }

std::string ExploreServedPolicy() { return Policy("; connect-src 'self'"); }

std::string ExploreServedHtml(const Bundle& bundle, const ViewFacts& facts, const CallSource& calls) {
  return BeforeData(ExploreServedPolicy()) + ExploreServedData(bundle, facts, calls) + BehindData();
}

std::string ExploreHtml(const Bundle& bundle, const ViewFacts& facts, size_t most_bytes) {
  std::string page = BeforeData(ExplorePolicy());
  const std::string behind = BehindData();
  const size_t own = page.size() + behind.size();
  page += ExploreData(bundle, facts, most_bytes - std::min(most_bytes, own));
  return page + behind;
}

bool IsExplorePage(std::string_view page) {
  const std::string before = BeforeData(ExplorePolicy()), behind = BehindData();
  if (page.size() < before.size() + behind.size() || page.substr(0, before.size()) != before ||
      page.substr(page.size() - behind.size()) != behind) {
    return false;
  }
  page = page.substr(before.size(), page.size() - before.size() - behind.size());
  return page.find('<') == std::string_view::npos;
}

std::string ExplorePage(const Bundle& bundle, const Verdict& verdict, const MergedStacks& stacks) {
  ViewFacts facts = BuildViewFacts(bundle, verdict);
  AddMergedStacks(stacks, &facts);
  return ExploreHtml(bundle, facts);
}

}  // namespace lockstep
