#include "gui/model/graph/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "analyzer/engine/facts/components.h"

namespace lockstep::gui {
namespace {

constexpr int kSweeps = 12;
constexpr size_t kMostUnits = 4000;  // beyond this, long arrows are straight

// An element of a layer: all nodes of a cycle, one node, or the gap through which a long arrow passes.
struct Unit {
  std::vector<int> nodes;  // empty for a gap
  int layer = 0;
  double height = 0, width = 0;
  double place = 0;              // while sorting: order within the layer; at the end: the center
  std::vector<int> left, right;  // units of the neighboring layers, once per arrow
};

struct Drawing {
  std::vector<Unit> units;
  std::vector<std::vector<int>> layers;  // units from top to bottom
  std::vector<std::vector<int>>
      passes;  // for each arrow: the units between the layers of `from` and `to`, excluding both ends
};

// Returns the nodes of a cycle in the order of its arrows, starting at the first node in the graph's order.
std::vector<int> Along(const std::vector<int>& members, const std::vector<std::vector<int>>& next,
                       const std::vector<uint32_t>& part) {
  std::vector<int> order;
  std::vector<bool> seen(next.size(), false);
  for (const int start : members) {
    int v = start;
    while (v >= 0 && !seen[static_cast<size_t>(v)]) {
      seen[static_cast<size_t>(v)] = true;
      order.push_back(v);
      int w = -1;
      for (const int candidate : next[static_cast<size_t>(v)]) {
        if (part[static_cast<size_t>(candidate)] == part[static_cast<size_t>(v)] &&
            !seen[static_cast<size_t>(candidate)]) {
          w = candidate;
          break;
        }
      }
      v = w;
    }
  }
  return order;
}

double Median(std::vector<double> places, double otherwise) {
  if (places.empty()) return otherwise;
  std::sort(places.begin(), places.end());
  const size_t n = places.size();
  return n % 2 == 1 ? places[n / 2] : (places[n / 2 - 1] + places[n / 2]) / 2;
}

void Number(Drawing* drawing) {
  for (const std::vector<int>& layer : drawing->layers) {
    for (size_t i = 0; i < layer.size(); ++i)
      drawing->units[static_cast<size_t>(layer[i])].place = static_cast<double>(i);
  }
}

int64_t Crossings(const Drawing& drawing) {
  int64_t crossings = 0;
  for (const std::vector<int>& layer : drawing.layers) {
    std::vector<std::pair<double, double>> ends;
    for (const int u : layer) {
      for (const int v : drawing.units[static_cast<size_t>(u)].right) {
        ends.emplace_back(drawing.units[static_cast<size_t>(u)].place, drawing.units[static_cast<size_t>(v)].place);
      }
    }
    for (size_t i = 0; i < ends.size() && ends.size() <= 500; ++i) {
      for (size_t j = i + 1; j < ends.size(); ++j) {
        crossings += (ends[i].first - ends[j].first) * (ends[i].second - ends[j].second) < 0;
      }
    }
  }
  return crossings;
}

void Sort(Drawing* drawing) {
  Number(drawing);
  std::vector<std::vector<int>> best = drawing->layers;
  int64_t fewest = Crossings(*drawing);
  for (int sweep = 0; sweep < kSweeps && fewest > 0; ++sweep) {
    const bool rightwards = sweep % 2 == 0;
    const int count = static_cast<int>(drawing->layers.size());
    for (int i = 1; i < count; ++i) {
      std::vector<int>& layer = drawing->layers[static_cast<size_t>(rightwards ? i : count - 1 - i)];
      std::vector<std::pair<double, int>> keyed;
      for (const int u : layer) {
        const Unit& unit = drawing->units[static_cast<size_t>(u)];
        std::vector<double> places;
        for (const int v : rightwards ? unit.left : unit.right)
          places.push_back(drawing->units[static_cast<size_t>(v)].place);
        keyed.emplace_back(Median(std::move(places), unit.place), u);
      }
      std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (size_t k = 0; k < layer.size(); ++k) {
        layer[k] = keyed[k].second;
        drawing->units[static_cast<size_t>(layer[k])].place = static_cast<double>(k);
      }
    }
    if (const int64_t now = Crossings(*drawing); now < fewest) {
      fewest = now;
      best = drawing->layers;
    }
  }
  drawing->layers = std::move(best);
  Number(drawing);
}

// Moves centers as little as possible (least squares), so that each is at least `apart` after the previous one:
// isotonic regression.
void Settle(const std::vector<double>& wanted, const std::vector<double>& apart, std::vector<double>* centres) {
  struct Block {
    double sum;
    int count;
  };
  std::vector<Block> blocks;
  std::vector<double> before(wanted.size(), 0);
  for (size_t i = 0; i < wanted.size(); ++i) {
    before[i] = i == 0 ? 0 : before[i - 1] + apart[i];
    blocks.push_back({wanted[i] - before[i], 1});
    while (blocks.size() > 1) {
      const Block last = blocks.back();
      Block& previous = blocks[blocks.size() - 2];
      if (previous.sum / previous.count <= last.sum / last.count) break;
      previous.sum += last.sum;
      previous.count += last.count;
      blocks.pop_back();
    }
  }
  centres->clear();
  for (const Block& block : blocks) {
    for (int k = 0; k < block.count; ++k) centres->push_back(block.sum / block.count + before[centres->size()]);
  }
}

void Position(Drawing* drawing, double node_gap) {
  auto apart_of = [&](const std::vector<int>& layer) {
    std::vector<double> apart;
    for (size_t i = 0; i < layer.size(); ++i) {
      const double gap = i == 0 ? 0
                                : node_gap + (drawing->units[static_cast<size_t>(layer[i - 1])].height +
                                              drawing->units[static_cast<size_t>(layer[i])].height) /
                                                 2;
      apart.push_back(gap);
    }
    return apart;
  };
  std::vector<double> centres;
  for (const std::vector<int>& layer : drawing->layers) {
    std::vector<double> wanted(layer.size(), 0);
    Settle(wanted, apart_of(layer), &centres);
    for (size_t i = 0; i < layer.size(); ++i) drawing->units[static_cast<size_t>(layer[i])].place = centres[i];
  }
  for (int sweep = 0; sweep < 8; ++sweep) {
    const int count = static_cast<int>(drawing->layers.size());
    for (int i = 0; i < count; ++i) {
      const std::vector<int>& layer = drawing->layers[static_cast<size_t>(sweep % 2 == 0 ? i : count - 1 - i)];
      std::vector<double> wanted;
      for (const int u : layer) {
        const Unit& unit = drawing->units[static_cast<size_t>(u)];
        double sum = 0;
        for (const int v : unit.left) sum += drawing->units[static_cast<size_t>(v)].place;
        for (const int v : unit.right) sum += drawing->units[static_cast<size_t>(v)].place;
        const size_t n = unit.left.size() + unit.right.size();
        wanted.push_back(n == 0 ? unit.place : sum / static_cast<double>(n));
      }
      Settle(wanted, apart_of(layer), &centres);
      for (size_t k = 0; k < layer.size(); ++k) drawing->units[static_cast<size_t>(layer[k])].place = centres[k];
    }
  }
}

// Computes units, layers and the gaps for long arrows. The `layer` of every node is given.
Drawing Draw(const WaitGraph& graph, const std::vector<QSizeF>& sizes, double node_gap, const std::vector<int>& layer,
             const std::vector<uint32_t>& part, const std::vector<std::vector<int>>& next) {
  Drawing drawing;
  const size_t n = graph.nodes.size();
  std::vector<int> unit_of(n, -1);
  int deepest = -1;
  for (size_t i = 0; i < n; ++i) {
    if (layer[i] < 0 || unit_of[i] >= 0) continue;
    std::vector<int> members;
    for (size_t j = i; j < n; ++j) {
      if (part[j] == part[i]) members.push_back(static_cast<int>(j));
    }
    Unit unit;
    unit.layer = layer[i];
    unit.nodes = Along(members, next, part);
    unit.height = -node_gap;
    for (const int j : unit.nodes) {
      unit_of[static_cast<size_t>(j)] = static_cast<int>(drawing.units.size());
      // Arrows of a cycle are curved to the left and right, and their labels are between the nodes.
      unit.height += sizes[static_cast<size_t>(j)].height() + node_gap * (unit.nodes.size() > 1 ? 2 : 1);
      unit.width = std::max(unit.width, sizes[static_cast<size_t>(j)].width());
    }
    deepest = std::max(deepest, unit.layer);
    drawing.units.push_back(std::move(unit));
  }
  drawing.passes.resize(graph.arrows.size());
  for (size_t a = 0; a < graph.arrows.size(); ++a) {
    const auto from = static_cast<size_t>(graph.arrows[a].from), to = static_cast<size_t>(graph.arrows[a].to);
    if (layer[from] == layer[to]) continue;
    int right = unit_of[from];
    auto join = [&](int left) {
      drawing.units[static_cast<size_t>(left)].right.push_back(right);
      drawing.units[static_cast<size_t>(right)].left.push_back(left);
      right = left;
    };
    const bool straight = drawing.units.size() + static_cast<size_t>(layer[from] - layer[to]) > kMostUnits;
    if (straight) continue;
    for (int l = layer[from] - 1; l > layer[to]; --l) {
      Unit pass;
      pass.layer = l;
      drawing.units.push_back(pass);
      drawing.passes[a].push_back(static_cast<int>(drawing.units.size()) - 1);
      join(static_cast<int>(drawing.units.size()) - 1);
    }
    join(unit_of[to]);
  }
  drawing.layers.resize(static_cast<size_t>(deepest + 1));
  for (size_t u = 0; u < drawing.units.size(); ++u)
    drawing.layers[static_cast<size_t>(drawing.units[u].layer)].push_back(static_cast<int>(u));
  return drawing;
}

}  // namespace

WaitLayout LayOutWaitGraph(const WaitGraph& graph, const std::vector<QSizeF>& sizes, double layer_gap,
                           double node_gap) {
  WaitLayout out;
  const size_t n = graph.nodes.size();
  std::vector<std::vector<int>> next(n);
  std::vector<bool> joined(n, false);
  for (const WaitArrow& arrow : graph.arrows) {
    next[static_cast<size_t>(arrow.from)].push_back(arrow.to);
    joined[static_cast<size_t>(arrow.from)] = joined[static_cast<size_t>(arrow.to)] = true;
  }
  const auto [part, parts] = FindComponents(
      static_cast<uint32_t>(n), [&](uint32_t v) { return next[v].size(); },
      [&](uint32_t v, size_t k) { return static_cast<uint32_t>(next[v][k]); });
  std::vector<int> part_layer(parts, 0);
  std::vector<std::vector<size_t>> members(parts);
  for (size_t i = 0; i < n; ++i) members[part[i]].push_back(i);
  for (size_t p = 0; p < members.size(); ++p) {
    for (const size_t i : members[p]) {
      for (const int j : next[i]) {
        const size_t q = part[static_cast<size_t>(j)];
        if (q != p) part_layer[p] = std::max(part_layer[p], part_layer[q] + 1);
      }
    }
  }
  out.layer.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const bool apart =
        !joined[i] && graph.nodes[i].kind != WaitClass::CAUSE && graph.nodes[i].kind != WaitClass::IN_CYCLE;
    out.layer[i] = apart ? -1 : part_layer[part[i]];
  }

  Drawing drawing = Draw(graph, sizes, node_gap, out.layer, part, next);
  Sort(&drawing);
  Position(&drawing, node_gap);

  out.rect.resize(n);
  double top = 0, bottom = 0;
  for (const Unit& unit : drawing.units) {
    top = std::min(top, unit.place - unit.height / 2);
    bottom = std::max(bottom, unit.place + unit.height / 2);
  }
  std::vector<double> left_of, right_of;
  double x = 0;
  for (const std::vector<int>& layer : drawing.layers) {
    double width = 0;
    for (const int u : layer) width = std::max(width, drawing.units[static_cast<size_t>(u)].width);
    left_of.push_back(x);
    right_of.push_back(x + width);
    for (const int u : layer) {
      Unit& unit = drawing.units[static_cast<size_t>(u)];
      unit.place -= top;
      double y = unit.place - unit.height / 2;
      for (const int i : unit.nodes) {
        const QSizeF size = sizes[static_cast<size_t>(i)];
        out.rect[static_cast<size_t>(i)] = QRectF(QPointF(x, y), size);
        y += size.height() + node_gap * 2;
      }
    }
    x += width + layer_gap;
  }
  double width = drawing.layers.empty() ? 0 : x - layer_gap;
  double y = drawing.layers.empty() ? 0 : bottom - top + node_gap * 2;
  double row_x = 0, row_height = 0;
  const double wrap = std::max(width, 1200.0);
  bool rows = false;
  for (size_t i = 0; i < n; ++i) {
    if (out.layer[i] >= 0) continue;
    if (row_x > 0 && row_x + sizes[i].width() > wrap) {
      y += row_height + node_gap;
      row_x = row_height = 0;
    }
    out.rect[i] = QRectF(QPointF(row_x, y), sizes[i]);
    row_x += sizes[i].width() + node_gap;
    row_height = std::max(row_height, sizes[i].height());
    width = std::max(width, row_x - node_gap);
    rows = true;
  }
  out.size = QSizeF(width, rows ? y + row_height : std::max(0.0, bottom - top));

  // The ends of arrows are spread over the node's side, in the order of the arrows' other ends.
  const size_t arrows = graph.arrows.size();
  out.paths.resize(arrows);
  std::vector<std::vector<std::pair<double, size_t>>> leaving(n), coming(n);
  for (size_t a = 0; a < arrows; ++a) {
    const auto from = static_cast<size_t>(graph.arrows[a].from), to = static_cast<size_t>(graph.arrows[a].to);
    if (out.layer[from] == out.layer[to]) continue;
    const std::vector<int>& passes = drawing.passes[a];
    leaving[from].emplace_back(
        passes.empty() ? out.rect[to].center().y() : drawing.units[static_cast<size_t>(passes.front())].place, a);
    coming[to].emplace_back(
        passes.empty() ? out.rect[from].center().y() : drawing.units[static_cast<size_t>(passes.back())].place, a);
  }
  std::vector<double> start(arrows, 0), end(arrows, 0);
  auto spread = [&](std::vector<std::pair<double, size_t>>& ends, const QRectF& rect, std::vector<double>* at) {
    std::sort(ends.begin(), ends.end());
    for (size_t k = 0; k < ends.size(); ++k) {
      (*at)[ends[k].second] =
          rect.top() + rect.height() * static_cast<double>(k + 1) / static_cast<double>(ends.size() + 1);
    }
  };
  for (size_t i = 0; i < n; ++i) {
    spread(leaving[i], out.rect[i], &start);
    spread(coming[i], out.rect[i], &end);
  }
  for (size_t a = 0; a < arrows; ++a) {
    const auto from = static_cast<size_t>(graph.arrows[a].from), to = static_cast<size_t>(graph.arrows[a].to);
    WaitLayout::Path& path = out.paths[a];
    const QRectF &f = out.rect[from], &t = out.rect[to];
    if (out.layer[from] == out.layer[to]) {
      // Down on the right, up on the left, so that both directions of a cycle are visible.
      path.bow = true;
      const bool down = t.center().y() > f.center().y();
      const double fx = down ? f.right() : f.left(), tx = down ? t.right() : t.left();
      const double far = std::abs(t.center().y() - f.center().y());
      const double bow = std::min(layer_gap * 0.45, 18 + far * 0.12);
      const double fy = f.center().y() + (down ? f.height() : -f.height()) * 0.2,
                   ty = t.center().y() - (down ? t.height() : -t.height()) * 0.2;
      const double middle = down ? std::max(fx, tx) + bow : std::min(fx, tx) - bow;
      path.points = {QPointF(fx, fy), QPointF(middle, (fy + ty) / 2), QPointF(tx, ty)};
      continue;
    }
    path.points.emplace_back(f.left(), start[a]);
    // In each layer in between, the arrow passes horizontally through its gap. In the layer of `to`, it turns at the
    // right edge of the widest node, so it crosses no neighbor.
    for (const int u : drawing.passes[a]) {
      const Unit& unit = drawing.units[static_cast<size_t>(u)];
      path.points.emplace_back(right_of[static_cast<size_t>(unit.layer)], unit.place);
      path.points.emplace_back(left_of[static_cast<size_t>(unit.layer)], unit.place);
    }
    if (const double edge = right_of[static_cast<size_t>(out.layer[to])]; edge > t.right() + 1)
      path.points.emplace_back(edge, end[a]);
    path.points.emplace_back(t.right(), end[a]);
  }
  return out;
}

}  // namespace lockstep::gui
