#include "gui/model/navigator.h"

#include <utility>

namespace lockstep::gui {

Selection Selection::Of(Ranks ranks, int32_t comm, int64_t seq) {
  Selection out;
  out.ranks = std::move(ranks);
  out.comm = comm;
  out.seq_first = out.seq_last = comm < 0 || seq < 0 ? -1 : seq;
  return out;
}

void Navigator::Show(Place place) {
  const bool selection = place.selection != place_.selection;
  Place other = place;
  other.selection = place_.selection;
  const bool rest = other != place_;
  place_ = std::move(place);
  if (rest) Q_EMIT PlaceChanged();
  if (selection) Q_EMIT SelectionChanged();
}

void Navigator::Go(Place place) {
  if (place == place_) return;
  back_.push_back(place_);
  if (back_.size() > kMost) back_.erase(back_.begin());
  forward_.clear();
  scrolling_ = false;
  Show(std::move(place));
  Q_EMIT HistoryChanged();
}

void Navigator::Select(Selection selection) {
  Place place = place_;
  place.selection = std::move(selection);
  Go(std::move(place));
}

void Navigator::Scroll(Place place) {
  if (place == place_) return;
  if (!scrolling_) {
    Go(std::move(place));
    scrolling_ = true;
    return;
  }
  Show(std::move(place));
}

void Navigator::GoAlong(std::vector<Place>* from, std::vector<Place>* to) {
  if (from->empty()) return;
  to->push_back(place_);
  Place place = std::move(from->back());
  from->pop_back();
  scrolling_ = false;
  Show(std::move(place));
  Q_EMIT HistoryChanged();
}

void Navigator::Reset(Place place) {
  back_.clear();
  forward_.clear();
  scrolling_ = false;
  Show(std::move(place));
  Q_EMIT HistoryChanged();
}

}  // namespace lockstep::gui
