// A value of some type that rpcrdma-gen made, whichever it is: what tests do with each of hundreds
// of types is compiled once, and not for each of them.
#ifndef RPCRDMA_TESTS_SUPPORT_GENERATED_VALUE_H_
#define RPCRDMA_TESTS_SUPPORT_GENERATED_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/generated/codec.h"

namespace rpcrdma::test {

class GeneratedValue {
 public:
  virtual ~GeneratedValue() = default;

  virtual std::string_view type() const noexcept = 0;
  // One of the same type, as its constructor makes it.
  virtual std::unique_ptr<GeneratedValue> another() const = 0;
  // Makes it as its constructor does, which frees what it held.
  virtual void clear() = 0;
  virtual void randomize(std::mt19937_64& random, int depth) = 0;
  virtual std::uint64_t encoded_size() const = 0;
  virtual void encode(MessageWriter& writer) const = 0;
  virtual void decode(MessageReader& reader) = 0;
  // `other` is of the same type.
  virtual bool equals(const GeneratedValue& other) const = 0;
  virtual std::string text() const = 0;
};

using GeneratedValues = std::vector<std::unique_ptr<GeneratedValue>>;

// The whole encoding with its bulk items in their places, also when it is larger than
// encoded_size() says; nothing when the value breaks a bound of its type.
std::optional<std::vector<std::byte>> encoded(const GeneratedValue& value);

// Returns whether `bytes` are an encoding of the type, and nothing else; `value` is what they say
// then.
bool decodes(Bytes bytes, GeneratedValue& value);

// `Traits`: what a generated ..._random.h has for each type.
template <class Traits>
class GeneratedValueOf final : public GeneratedValue {
 public:
  std::string_view type() const noexcept override { return Traits::kName; }
  std::unique_ptr<GeneratedValue> another() const override {
    return std::make_unique<GeneratedValueOf>();
  }
  void clear() override {
    std::destroy_at(&value_);  // an assignment keeps the memory of vectors and strings
    std::construct_at(&value_);
  }
  void randomize(std::mt19937_64& random, int depth) override {
    Traits::randomize(value_, random, depth);
  }
  std::uint64_t encoded_size() const override { return Traits::encoded_size(value_); }
  void encode(MessageWriter& writer) const override { Traits::encode(value_, writer); }
  void decode(MessageReader& reader) override { Traits::decode(reader, value_); }
  bool equals(const GeneratedValue& other) const override {
    return value_ == static_cast<const GeneratedValueOf&>(other).value_;
  }
  std::string text() const override { return Traits::to_string(value_); }

 private:
  typename Traits::Type value_{};
};

// A value of each type; `visit_types` calls the generated function of that name with what it is
// given.
template <class VisitTypes>
GeneratedValues values_of_all_types(VisitTypes visit_types) {
  GeneratedValues values;
  visit_types([&values](auto traits) {
    values.push_back(std::make_unique<GeneratedValueOf<decltype(traits)>>());
  });
  return values;
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_GENERATED_VALUE_H_
