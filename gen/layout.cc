// Linked lists, recursion, and what goes on the heap.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "gen/check.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

// Optionals and unions keep larger values on the heap, so that an absent item costs little: a
// decoded message then takes only a small multiple of its size.
constexpr std::uint64_t kInPlaceMax = 32;                      // bytes
constexpr std::uint64_t kMemoryMax = std::uint64_t{1} << 30U;  // bytes of one value
// The deepest nesting of types in members of types: the code that follows them is recursive.
constexpr std::size_t kDepthMax = 500;

void too_deep(const Definition& of, Diagnostics& diagnostics) {
  diagnostics.error(of.name.at,
                    fmt::format("types contain each other more than {} deep here", kDepthMax));
}

// --- Linked lists ------------------------------------------------------------------------------

// The structure that an optional declaration is of; null when it is none. Through typedefs.
const Definition* optional_of(const Declaration& declaration) {
  const Declaration& behind = resolved(declaration);
  if (behind.shape == Shape::kOptional) {
    Declaration plain;
    plain.type = behind.type;
    return resolved_target(plain);
  }
  if (behind.shape != Shape::kPlain || behind.type.target == nullptr ||
      behind.type.target->kind != Kind::kTypedef) {
    return nullptr;
  }
  return optional_of(behind.type.target->alias);
}

// A structure whose last member, and no other, is an optional of itself.
bool is_list_node(const Definition& of) {
  if (of.kind != Kind::kStruct || optional_of(of.members.back()) != &of) return false;
  return std::none_of(of.members.begin(), of.members.end() - 1, [&](const Declaration& each) {
    return optional_of(each) == &of || resolved_target(each) == &of;
  });
}

void find_lists(File& file, Diagnostics& diagnostics) {
  for (Definition& each : file.definitions) {
    if (!is_list_node(each)) continue;
    each.is_node = true;
    each.link_at = each.members.back().name.at;
  }
  const auto mark = [&](Declaration& declared) {
    Declaration plain;
    plain.type = declared.type;
    const Definition* target = resolved_target(plain);
    if (target == nullptr || !target->is_node) return;
    if (declared.shape == Shape::kFixed || declared.shape == Shape::kVariable) {
      diagnostics.error(declared.type.name.at,
                        fmt::format("'{}' is a node of a linked list; an array of nodes, each "
                                    "with those behind it, needs a typedef: typedef {} NAME",
                                    target->name.text, target->name.text));
      return;
    }
    // Through a typedef of a node, the typedef is the list already.
    if (declared.shape == Shape::kPlain && declared.type.target != target) return;
    declared.is_list = true;
    declared.never_empty = declared.shape == Shape::kPlain;
  };
  for (Definition& each : file.definitions) {
    if (each.is_node) each.members.pop_back();
  }
  // The typedefs of nodes come first, since what is made of them depends on their being lists.
  for (Definition& each : file.definitions) {
    if (each.kind == Kind::kTypedef && each.alias.shape == Shape::kPlain) mark(each.alias);
  }
  for (Definition& each : file.definitions) {
    if (each.kind != Kind::kTypedef || each.alias.shape != Shape::kPlain) {
      for_each_declaration(each, mark);
    }
    for (Version& version : each.versions) {
      for (Procedure& procedure : version.procedures) {
        if (!procedure.result.is_void()) mark(procedure.result);
        for (Declaration& argument : procedure.arguments) mark(argument);
      }
    }
  }
}

// --- Recursion ---------------------------------------------------------------------------------

// Components of definitions that contain each other (Tarjan's algorithm).
class Components {
 public:
  explicit Components(File& file) {
    for (Definition& each : file.definitions) {
      if (!state_.contains(&each)) visit(each, 1);
    }
  }
  // The first type that was too deep to look at; null when there is none.
  const Definition* too_deep() const { return too_deep_; }

 private:
  struct State {
    std::size_t index, low;
    bool on_stack;
  };

  void visit(Definition& of, std::size_t depth) {
    if (depth > kDepthMax && too_deep_ == nullptr) too_deep_ = &of;
    if (too_deep_ != nullptr) return;
    const std::size_t index = state_.size() + 1;
    state_[&of] = {index, index, true};
    stack_.push_back(&of);
    for_each_declaration(of, [&](Declaration& each) {
      Definition* target = each.type.target;
      if (target == nullptr) return;
      if (target == &of) of.recursive = true;
      const auto found = state_.find(target);
      if (found == state_.end()) {
        visit(*target, depth + 1);
        if (too_deep_ != nullptr) return;
        state_[&of].low = std::min(state_[&of].low, state_[target].low);
      } else if (found->second.on_stack) {
        state_[&of].low = std::min(state_[&of].low, found->second.index);
      }
    });
    if (state_[&of].low != index || too_deep_ != nullptr) return;
    const bool alone = stack_.back() == &of;
    while (true) {
      Definition* member = stack_.back();
      stack_.pop_back();
      state_[member].on_stack = false;
      member->component = index;
      member->recursive = member->recursive || !alone;
      if (member == &of) return;
    }
  }

  std::map<const Definition*, State> state_;
  std::vector<Definition*> stack_;
  const Definition* too_deep_ = nullptr;
};

bool is_case(const Definition& of, Integer number) {
  return std::any_of(of.arms.begin(), of.arms.end(), [number](const Arm& arm) {
    return std::any_of(arm.cases.begin(), arm.cases.end(),
                       [number](const Value& each) { return each.number == number; });
  });
}

// A discriminant that is no case; none when all that it can be are.
std::optional<Integer> value_of_default(const Definition& of) {
  const Definition* type = resolved_target(of.discriminant);
  if (type == nullptr) {
    const auto range = range_of(resolved_basic(of.discriminant));
    for (Integer number{}; range && range->has(number); ++number.magnitude) {
      if (!is_case(of, number)) return number;
    }
    for (Integer number{true, 1}; range && range->has(number); ++number.magnitude) {
      if (!is_case(of, number)) return number;
    }
    return std::nullopt;
  }
  for (const Enumerator& each : type->enumerators) {
    const auto wide = static_cast<std::int64_t>(each.number);
    const Integer number{wide < 0, static_cast<std::uint64_t>(wide < 0 ? -wide : wide)};
    if (!is_case(of, number)) return number;
  }
  return std::nullopt;
}

// Finds the types that have a value that ends: a structure that always contains another of itself
// has none.
class Finite {
 public:
  explicit Finite(File& file) {
    // There and back, as definitions stand before what they are made of, or behind.
    auto& all = file.definitions;
    for (std::size_t before = 0; before == 0 || before < rank_.size();) {
      before = rank_.size();
      std::for_each(all.begin(), all.end(), [this](const Definition& each) { look_at(each); });
      if (before == 0 && rank_.empty()) return;
      std::for_each(all.rbegin(), all.rend(), [this](const Definition& each) { look_at(each); });
    }
  }
  bool operator()(const Definition& of) const { return rank_.contains(&of); }
  // Returns whether the arm was known to end before its union was, so that making one does not make
  // another union of the type, and so on without end.
  bool ends_before(const Declaration& declared, const Definition& of) const {
    if (!is_inside(declared)) return true;
    const Definition* target = declared.type.target;
    return rank_.contains(target) &&
           (target->component != of.component || rank_.at(target) < rank_.at(&of));
  }

 private:
  void look_at(const Definition& of) {
    if (!rank_.contains(&of) && is_finite(of)) rank_.emplace(&of, rank_.size() + 1);
  }
  static bool is_inside(const Declaration& declared) {
    return !declared.is_void() && declared.type.target != nullptr && !declared.is_list &&
           (declared.shape == Shape::kPlain || declared.shape == Shape::kFixed);
  }
  bool is_finite(const Declaration& declared) const {
    return !is_inside(declared) || rank_.contains(declared.type.target);
  }
  bool is_finite(const Definition& of) const {
    if (of.kind == Kind::kUnion) {
      return std::any_of(of.arms.begin(), of.arms.end(), [&](const Arm& arm) {
        return is_finite(arm.declaration) && (!arm.is_default || value_of_default(of));
      });
    }
    bool all = true;
    for_each_declaration(of, [&](const Declaration& each) { all = all && is_finite(each); });
    return all;
  }

  std::map<const Definition*, std::size_t> rank_;  // in which order they were found to be
};

// --- Sizes -------------------------------------------------------------------------------------

class Sizes {
 public:
  Sizes(File& file, Diagnostics& diagnostics) : diagnostics_(diagnostics) {
    for (Definition& each : file.definitions) {
      measure(each);
      for (Version& version : each.versions) {
        for (Procedure& procedure : version.procedures) {
          measure(each, procedure.result);
          for (Declaration& argument : procedure.arguments) measure(each, argument);
        }
      }
    }
    for (const Definition& each : file.definitions) {
      for_each_declaration(each, [this](const Declaration& one) { refuse_endless(one); });
      for (const Version& version : each.versions) {
        for (const Procedure& procedure : version.procedures) {
          refuse_endless(procedure.result);
          for (const Declaration& argument : procedure.arguments) refuse_endless(argument);
        }
      }
    }
  }

 private:
  // A peer could send any number of elements that take no bytes, and each takes time and memory.
  void refuse_endless(const Declaration& of) {
    if (of.shape != Shape::kVariable || of.is_list || of.type.target == nullptr) return;
    if (of.type.target->encoded_min > 0) return;
    diagnostics_.error(
        of.type.name.at,
        fmt::format("a value of '{}' may take no bytes, so that a message may have any "
                    "number of them; an array of these has a fixed size",
                    of.type.target->name.text));
  }

  static std::uint64_t times(std::uint64_t a, std::uint64_t b) {
    return a != 0 && b > kMemoryMax / a ? kMemoryMax + 1 : a * b;
  }
  static std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
    return std::min(a + b, kMemoryMax + 1);
  }
  static bool in_component(const Definition& owner, const Declaration& declared) {
    return owner.recursive && declared.type.target != nullptr &&
           declared.type.target->component == owner.component;
  }

  // Returns the memory of one element, and its smallest encoded size; bytes.
  std::pair<std::uint64_t, std::uint64_t> element(const TypeSpec& type) {
    switch (type.basic) {
      case Basic::kNone:
        break;
      case Basic::kVoid:
        return {0, 0};
      case Basic::kBool:
      case Basic::kChar:
      case Basic::kInt8:
      case Basic::kUint8:
        return {1, 4};
      case Basic::kInt16:
      case Basic::kUint16:
        return {2, 4};
      case Basic::kInt32:
      case Basic::kUint32:
      case Basic::kFloat:
        return {4, 4};
      case Basic::kInt64:
      case Basic::kUint64:
      case Basic::kDouble:
        return {8, 8};
      case Basic::kString:
        return {32, 4};
      case Basic::kOpaque:
        return {24, 4};
    }
    measure(*type.target);
    return {type.target->memory_size, type.target->encoded_min};
  }

  std::pair<std::uint64_t, std::uint64_t> declaration(const Definition& owner,
                                                      Declaration& declared) {
    constexpr std::uint64_t kVector = 24;
    if (declared.is_list) return {kVector, declared.never_empty ? 8 : 4};
    if (declared.is_bytes() && declared.shape == Shape::kFixed) {
      return {declared.size, (declared.size + 3) / 4 * 4};
    }
    if (declared.is_bytes() || declared.is_text()) return {declared.is_text() ? 32 : kVector, 4};
    if (declared.shape == Shape::kVariable) return {kVector, 4};
    if (declared.shape == Shape::kOptional) {
      declared.boxed = in_component(owner, declared) || element(declared.type).first > kInPlaceMax;
      return {declared.boxed ? 8 : element(declared.type).first + 8, 4};
    }
    const auto [memory, encoded] = element(declared.type);
    if (declared.shape == Shape::kPlain) return {memory, encoded};
    return {times(memory, declared.size), times(encoded, declared.size)};
  }

  void measure_union(Definition& of) {
    std::uint64_t largest = 0, least = kMemoryMax;
    for (Arm& arm : of.arms) {
      std::pair<std::uint64_t, std::uint64_t> size{0, 0};
      if (!arm.declaration.is_void()) {
        arm.declaration.boxed = of.recursive && in_component(of, arm.declaration);
        if (!arm.declaration.boxed || arm.declaration.shape == Shape::kOptional) {
          size = declaration(of, arm.declaration);
        }
        if (arm.declaration.shape != Shape::kOptional) {
          arm.declaration.boxed = arm.declaration.boxed || size.first > kInPlaceMax;
        }
        if (arm.declaration.boxed) size.first = 8;
      }
      largest = std::max(largest, size.first);
      least = std::min(least, size.second);
    }
    of.memory_size = plus(16, largest);
    of.encoded_min = plus(discriminant_size(of), least);
  }

  void measure(Definition& of) {
    if (done_[&of]) return;
    done_[&of] = true;
    if (++depth_ == kDepthMax + 1) too_deep(of, diagnostics_);
    if (depth_ <= kDepthMax) measure_members(of);
    --depth_;
  }

  void measure_members(Definition& of) {
    if (of.kind == Kind::kEnum) {
      of.memory_size = of.encoded_min = 4;
    } else if (of.kind == Kind::kUnion) {
      measure_union(of);
    } else {
      for_each_declaration(of, [&](Declaration& each) {
        const auto [memory, encoded] = declaration(of, each);
        of.memory_size = plus(of.memory_size, memory);
        of.encoded_min = plus(of.encoded_min, encoded);
      });
      if (of.is_node) of.encoded_min = plus(of.encoded_min, 4);
    }
    of.memory_size = std::max<std::uint64_t>(of.memory_size, 1);  // also where nothing is in it
    if (of.memory_size > kMemoryMax) {
      diagnostics_.error(
          of.name.at, fmt::format("a value of '{}' takes more than 1 GiB of memory", of.name.text));
    }
  }

  // An argument or a result.
  void measure(const Definition& program, Declaration& declared) {
    if (declared.is_void() || declaration(program, declared).first <= kMemoryMax) return;
    if (declared.type.target != nullptr) return;  // it was reported there already
    diagnostics_.error(declared.type.name.at, "a value of this takes more than 1 GiB of memory");
  }

  Diagnostics& diagnostics_;
  std::size_t depth_ = 0;
  std::map<const Definition*, bool> done_;
};

// Returns whether 0 is a value of the discriminant.
bool has_zero(const Definition& of) {
  const Definition* const type = resolved_target(of.discriminant);
  return type == nullptr || std::any_of(type->enumerators.begin(), type->enumerators.end(),
                                        [](const Enumerator& each) { return each.number == 0; });
}

// Chooses the initial arm of a union: that of 0 if making it ends (also as one of the default),
// else the first arm that does.
void choose_initial(Definition& of, const Finite& finite) {
  bool found = false;
  const Arm& last = of.arms.back();
  if (last.is_default && has_zero(of) && !is_case(of, Integer{}) &&
      finite.ends_before(last.declaration, of)) {
    of.initial_arm = of.arms.size() - 1;
    of.initial_discriminant = Integer{};
    return;
  }
  for (std::size_t i = 0; i < of.arms.size(); ++i) {
    if (!finite.ends_before(of.arms[i].declaration, of)) continue;
    for (const Value& each : of.arms[i].cases) {
      if (found && each.number.magnitude != 0) continue;
      of.initial_arm = i;
      of.initial_discriminant = each.number;
      if (each.number.magnitude == 0) return;
      found = true;
    }
  }
  if (found) return;
  // Only the default is left: with a value that is no case.
  of.initial_arm = of.arms.size() - 1;
  of.initial_discriminant = value_of_default(of).value_or(Integer{});
}

void find_views(File& file) {
  for (bool more = true; more;) {
    more = false;
    for (Definition& each : file.definitions) {
      if (each.has_views) continue;
      for_each_declaration(each, [&](Declaration& declared) {
        each.has_views = each.has_views || declared.ddp ||
                         (declared.type.target != nullptr && declared.type.target->has_views);
      });
      more = more || each.has_views;
    }
  }
}

}  // namespace

void lay_out(File& file, Diagnostics& diagnostics) {
  find_lists(file, diagnostics);
  const Components components(file);
  if (const Definition* deep = components.too_deep(); deep != nullptr) {
    return too_deep(*deep, diagnostics);
  }
  const Finite finite(file);
  for (Definition& each : file.definitions) {
    if (finite(each)) continue;
    diagnostics.error(each.name.at,
                      fmt::format("'{}' contains itself without end; make the inner one optional",
                                  each.name.text));
  }
  if (!diagnostics.ok()) return;
  const Sizes sizes(file, diagnostics);
  for (Definition& each : file.definitions) {
    if (each.kind == Kind::kUnion) choose_initial(each, finite);
  }
  find_views(file);
}

}  // namespace rpcrdma::gen
