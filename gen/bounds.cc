#include "gen/bounds.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "gen/check.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

constexpr std::uint64_t kNoBound = std::numeric_limits<std::uint32_t>::max();

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return std::min(a + b, Bound::kMany);
}
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return a != 0 && b > Bound::kMany / a ? Bound::kMany : a * b;
}
std::uint64_t padded(std::uint64_t size) {
  return (size + 3) / 4 * 4;
}

void merge_flags(Bound& into, const Bound& other) {
  into.is_open = into.is_open || other.is_open;
  into.has_open_data = into.has_open_data || other.has_open_data;
  into.has_data = into.has_data || other.has_data;
  into.data_max = std::max(into.data_max, other.data_max);
}

void multiply_data(Bound& all, const Bound& one, std::uint64_t count) {
  all.data_sum = times(count, one.data_sum);
  all.data_count = times(count, one.data_count);
}

class Walk {
 public:
  Bound of(const Declaration& declared) {
    if (declared.is_bytes() || declared.is_text()) return bytes(declared);
    Bound one = element(declared.type);
    Bound all;
    merge_flags(all, one);
    if (declared.is_list || (declared.shape == Shape::kVariable && declared.size == kNoBound)) {
      all.whole = all.reduced = 4;
      all.is_open = true;
      multiply_data(all, one, Bound::kMany);
    } else {
      const bool is_many = declared.shape == Shape::kFixed || declared.shape == Shape::kVariable;
      const bool has_word =
          declared.shape == Shape::kVariable || declared.shape == Shape::kOptional;
      const std::uint64_t count = is_many ? declared.size : 1;
      all.whole = plus(has_word ? 4 : 0, times(count, one.whole));
      all.reduced = plus(has_word ? 4 : 0, times(count, one.reduced));
      multiply_data(all, one, count);
    }
    return all;
  }

 private:
  static Bound bytes(const Declaration& declared) {
    Bound result;
    if (declared.shape == Shape::kFixed) {
      result.whole = result.reduced = padded(declared.size);
      return result;
    }
    const bool has_bound = declared.size != kNoBound;
    result.whole = plus(4, has_bound ? padded(declared.size) : 0);
    result.reduced = declared.ddp ? 4 : result.whole;
    result.is_open = !has_bound && !declared.ddp;
    result.has_data = declared.ddp;
    result.has_open_data = !has_bound && declared.ddp;
    if (declared.ddp) {
      result.data_max = result.data_sum = has_bound ? declared.size : Bound::kMany;
      result.data_count = 1;
    }
    return result;
  }

  Bound element(const TypeSpec& type) {
    Bound result;
    if (type.target != nullptr) return definition(*type.target);
    const bool is_wide =
        type.basic == Basic::kInt64 || type.basic == Basic::kUint64 || type.basic == Basic::kDouble;
    result.whole = result.reduced = type.basic == Basic::kVoid ? 0 : (is_wide ? 8 : 4);
    return result;
  }

  Bound definition(const Definition& of) {
    if (const auto found = done_.find(&of); found != done_.end()) return found->second;
    Bound result;
    // A type that contains itself has no bound. Its members are visited once: the sum has them
    // already.
    result.is_open = of.recursive;
    if (of.recursive && !entered_.insert(&of).second) return result;
    if (of.kind == Kind::kEnum) {
      result.whole = result.reduced = 4;
    } else if (of.kind == Kind::kUnion) {
      for (const Arm& arm : of.arms) {
        if (arm.declaration.is_void()) continue;
        const Bound each = this->of(arm.declaration);
        merge_flags(result, each);
        result.whole = std::max(result.whole, each.whole);
        result.reduced = std::max(result.reduced, each.reduced);
        result.data_sum = std::max(result.data_sum, each.data_sum);
        result.data_count = std::max(result.data_count, each.data_count);
      }
      result.whole = plus(result.whole, discriminant_size(of));
      result.reduced = plus(result.reduced, discriminant_size(of));
    } else {
      for_each_declaration(of, [&](const Declaration& each) {
        const Bound bound = this->of(each);
        merge_flags(result, bound);
        result.whole = plus(result.whole, bound.whole);
        result.reduced = plus(result.reduced, bound.reduced);
        result.data_sum = plus(result.data_sum, bound.data_sum);
        result.data_count = plus(result.data_count, bound.data_count);
      });
    }
    if (of.recursive && result.has_data) result.data_sum = result.data_count = Bound::kMany;
    if (!of.recursive) done_.emplace(&of, result);
    return result;
  }

  std::map<const Definition*, Bound> done_;
  std::set<const Definition*> entered_;
};

}  // namespace

Bound bound_of(const Declaration& declaration) {
  return Walk().of(declaration);
}

}  // namespace rpcrdma::gen
