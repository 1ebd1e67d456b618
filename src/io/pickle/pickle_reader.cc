#include <fmt/format.h>

#include <span>
#include <utility>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "io/files/number_codes.h"
#include "io/pickle/pickle_builder.h"
#include "io/pickle/pickle_document.h"
#include "io/pickle/pickle_opcodes.h"
#include "io/pickle/zip_limits.h"

namespace hooked {
namespace {

using Kind = PickleKind;
using Limits = ZipCheckpointLimits;

/// The stack machine of the pickle format. Members throw std::invalid_argument with the plain reason.
class PickleMachine {
 public:
  explicit PickleMachine(PickleDocument& document)
      : document_(document), bytes_(document.bytes), builder_(document) {}

  /// The offset of the opcode that was read last.
  std::size_t position() const noexcept { return opcode_at_; }

  void run() {
    if (bytes_.size() < 2 || static_cast<Opcode>(static_cast<unsigned char>(bytes_[0])) != Opcode::kProto) {
      refuse_pickle("this is not a pickle of protocol 2 to 5; expected it to begin with PROTO");
    }
    if (const auto protocol = static_cast<unsigned char>(bytes_[1]); protocol < 2 || protocol > 5) {
      refuse_pickle("unknown protocol; expected 2 to 5, got {}", protocol);
    }
    at_ = 2;
    do {
      opcode_at_ = at_;
    } while (step(static_cast<std::uint8_t>(take(1)[0])));
    if (at_ != bytes_.size()) {
      refuse_pickle("bytes follow the end of the pickle; expected none, got {}", bytes_.size() - at_);
    }
  }

 private:
  /// Does what one opcode says; false at the end.
  bool step(std::uint8_t code) {
    switch (static_cast<Opcode>(code)) {
      case Opcode::kStop:
        document_.root = pop();
        if (!stack_.empty()) {
          refuse_pickle("the pickle leaves values over; expected one, got {}", stack_.size() + 1);
        }
        return false;
      case Opcode::kFrame:  // says where its reader may read ahead to; only a lie is of interest
        check_left(number(8));
        break;
      case Opcode::kMark:
        push({.kind = Kind::kMark});
        break;
      case Opcode::kPop:
        if (!stack_.empty() && stack_.back().kind == Kind::kMark) {
          stack_.pop_back();
        } else {
          pop();
        }
        break;
      case Opcode::kPopMark:
        drop_from_mark(mark());
        break;
      default:
        step_constant(code);
    }
    return true;
  }

  void step_constant(std::uint8_t code) {
    switch (static_cast<Opcode>(code)) {
      case Opcode::kNone:
        return push({.kind = Kind::kNone});
      case Opcode::kNewTrue:
        return push({.kind = Kind::kBool, .payload = 1});
      case Opcode::kNewFalse:
        return push({.kind = Kind::kBool});
      case Opcode::kBinInt:  // the one signed field
        return push_integer(static_cast<std::int32_t>(number(4)));
      case Opcode::kBinInt1:
        return push_integer(static_cast<std::int64_t>(number(1)));
      case Opcode::kBinInt2:
        return push_integer(static_cast<std::int64_t>(number(2)));
      case Opcode::kLong1:
        return push_long(number(1));
      case Opcode::kLong4:
        return push_long(number(4));
      case Opcode::kBinFloat: {
        std::uint64_t bits = 0;
        for (const auto byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
        return push({.kind = Kind::kReal, .payload = bits});
      }
      case Opcode::kShortBinUnicode:
        return push_text(Kind::kText, number(1));
      case Opcode::kBinUnicode:
        return push_text(Kind::kText, number(4));
      case Opcode::kBinUnicode8:
        return push_text(Kind::kText, number(8));
      // What Python 2 wrote for its str: treated as text.
      case Opcode::kShortBinString:
        return push_text(Kind::kText, number(1));
      case Opcode::kBinString:
        return push_text(Kind::kText, number(4));
      case Opcode::kShortBinBytes:
        return push_text(Kind::kBytes, number(1));
      case Opcode::kBinBytes:
        return push_text(Kind::kBytes, number(4));
      case Opcode::kBinBytes8:
        return push_text(Kind::kBytes, number(8));
      default:
        step_container(code);
    }
  }

  void step_container(std::uint8_t code) {
    switch (static_cast<Opcode>(code)) {
      case Opcode::kEmptyTuple:
        return push(builder_.tuple({}));
      case Opcode::kTuple1:
        return push_tuple(top(1));
      case Opcode::kTuple2:
        return push_tuple(top(2));
      case Opcode::kTuple3:
        return push_tuple(top(3));
      case Opcode::kTuple: {
        const auto from = mark();
        const auto tuple = builder_.tuple(above(from));
        drop_from_mark(from);
        return push(tuple);
      }
      case Opcode::kEmptyList:
        return push(builder_.empty_list());
      case Opcode::kEmptyDict:
        return push(builder_.empty_dict());
      case Opcode::kList: {
        const auto list = builder_.empty_list();
        append_from(mark(), list);
        return push(list);
      }
      case Opcode::kDict: {
        const auto dict = builder_.empty_dict();
        set_items_from(mark(), dict);
        return push(dict);
      }
      case Opcode::kAppend: {
        const auto value = pop();
        return builder_.append(peek(), {&value, 1});
      }
      case Opcode::kAppends: {
        const auto from = mark();
        return append_from(from, below(from));
      }
      case Opcode::kSetItem: {
        const auto pair = top(2);
        builder_.set_items(below(stack_.size() - 2), pair);
        stack_.resize(stack_.size() - 2);
        return;
      }
      case Opcode::kSetItems: {
        const auto from = mark();
        return set_items_from(from, below(from));
      }
      default:
        step_object(code);
    }
  }

  void step_object(std::uint8_t code) {
    switch (static_cast<Opcode>(code)) {
      case Opcode::kBinGet:
        return get(number(1));
      case Opcode::kLongBinGet:
        return get(number(4));
      case Opcode::kBinPut:
        return put(number(1));
      case Opcode::kLongBinPut:
        return put(number(4));
      case Opcode::kMemoize:
        return put(memo_.size());
      case Opcode::kGlobal: {
        const auto module = line();
        return push(builder_.global(module, line()));
      }
      case Opcode::kStackGlobal: {
        const auto name = pop();
        const auto module = pop();
        if (name.kind != Kind::kText || module.kind != Kind::kText) {
          refuse_pickle("STACK_GLOBAL names no global; expected two texts, got {} and {}",
                        pickle_kind_text(module.kind), pickle_kind_text(name.kind));
        }
        return push(builder_.global(document_.text(module), document_.text(name)));
      }
      case Opcode::kReduce: {
        const auto arguments = pop();
        const auto function = pop();
        return push(builder_.call(function, arguments));
      }
      case Opcode::kBuild: {
        const auto state = pop();
        return builder_.set_state(peek(), state);
      }
      case Opcode::kBinPersId:
        return push(builder_.storage(pop()));
      default:
        refuse_pickle(
            "the opcode {} is not allowed; expected those of tensors and plain containers; "
            "nothing was run; save the state dict alone, or convert it to safetensors",
            opcode_text(code));
    }
  }

  // The pickle's bytes.

  void check_left(std::uint64_t wanted) const {
    if (wanted <= bytes_.size() - at_) return;
    refuse_pickle("the pickle is cut off; expected {} bytes more, got {}", wanted, bytes_.size() - at_);
  }

  std::string_view take(std::uint64_t bytes) {
    check_left(bytes);
    const auto taken = bytes_.substr(at_, bytes);
    at_ += bytes;
    return taken;
  }

  std::uint64_t number(std::size_t width) { return little_endian(take(width), 0, width); }

  /// Up to the next line feed, which is skipped.
  std::string_view line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) check_left(bytes_.size() - at_ + 1);
    const auto text = take(end - at_);
    at_ += 1;
    return text;
  }

  // Values on the stack.

  void push(const PickleValue& value) {
    if (stack_.size() == Limits::kStack) {
      refuse_pickle("the stack is too deep; expected at most {} values, got more", Limits::kStack);
    }
    stack_.push_back(value);
  }

  void push_integer(std::int64_t value) {
    push({.kind = Kind::kInteger, .payload = static_cast<std::uint64_t>(value)});
  }

  /// A two's complement number of any width; 64 bits of it are supported.
  void push_long(std::uint64_t width) {
    const auto digits = take(width);
    if (width > 8) {
      refuse_pickle("an integer is too large; expected at most 8 bytes, got {}", width);
    }
    auto value = little_endian(digits, 0, width);
    if (width > 0 && width < 8 && (digits.back() & 0x80) != 0) value |= ~std::uint64_t{0} << (8 * width);
    push_integer(static_cast<std::int64_t>(value));
  }

  void push_text(PickleKind kind, std::uint64_t size) {
    const auto begin = at_;
    const auto text = take(size);
    if (const auto bad = first_invalid_byte(text); kind == Kind::kText && bad) {
      refuse_pickle("a text is not UTF-8 from byte {} of the pickle on", begin + *bad);
    }
    push({.kind = kind, .size = static_cast<std::uint32_t>(size), .payload = begin});
  }

  PickleValue pop() {
    const auto value = peek();
    stack_.pop_back();
    return value;
  }

  const PickleValue& peek() const { return top(1).front(); }

  /// The uppermost `count` values.
  std::span<const PickleValue> top(std::size_t count) const {
    if (stack_.size() < count) {
      refuse_pickle("the stack has too few values; expected at least {}, got {}", count, stack_.size());
    }
    const auto values = std::span(stack_).last(count);
    for (const auto& value : values) {
      if (value.kind == Kind::kMark) {
        refuse_pickle("a mark is where a value should be; expected a value, got a mark");
      }
    }
    return values;
  }

  /// The value below place `index` of the stack.
  PickleValue below(std::size_t index) const {
    if (index == 0 || stack_[index - 1].kind == Kind::kMark) {
      refuse_pickle("the stack has too few values; expected a container, got none");
    }
    return stack_[index - 1];
  }

  /// The place of the uppermost mark.
  std::size_t mark() const {
    for (auto i = stack_.size(); i > 0; --i) {
      if (stack_[i - 1].kind == Kind::kMark) return i - 1;
    }
    refuse_pickle("a mark is missing; expected one on the stack, got none");
  }

  std::span<const PickleValue> above(std::size_t mark) const { return std::span(stack_).subspan(mark + 1); }

  void drop_from_mark(std::size_t mark) { stack_.resize(mark); }

  void push_tuple(std::span<const PickleValue> elements) {
    const auto tuple = builder_.tuple(elements);
    stack_.resize(stack_.size() - elements.size());
    push(tuple);
  }

  void append_from(std::size_t mark, const PickleValue& list) {
    builder_.append(list, above(mark));
    drop_from_mark(mark);
  }

  void set_items_from(std::size_t mark, const PickleValue& dict) {
    builder_.set_items(dict, above(mark));
    drop_from_mark(mark);
  }

  // The memo.

  void put(std::uint64_t index) {
    if (index >= Limits::kMemo) {
      refuse_pickle("a memo index is too large; expected less than {}, got {}", Limits::kMemo, index);
    }
    if (index >= memo_.size()) {
      builder_.charge((index + 1 - memo_.size()) * sizeof(PickleValue));
      memo_.resize(index + 1, {.kind = Kind::kMark});  // a mark: never put
    }
    memo_[index] = peek();
  }

  void get(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index].kind == Kind::kMark) {
      refuse_pickle("the memo has nothing at index {}; expected a value", index);
    }
    push(memo_[index]);
  }

  PickleDocument& document_;
  std::string_view bytes_;
  PickleBuilder builder_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<PickleValue> stack_;
  std::deque<PickleValue> memo_;
};

}  // namespace

PickleDocument read_pickle(std::string bytes, std::string_view where) {
  if (bytes.size() > Limits::kPickleBytes) {
    throw CheckpointError(where, fmt::format("the pickle is too large; expected at most {} bytes, got {}",
                                             Limits::kPickleBytes, bytes.size()));
  }
  PickleDocument document;
  document.bytes = std::move(bytes);
  PickleMachine machine(document);
  try {
    machine.run();
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(where, fmt::format("data.pkl at byte {}: {}", machine.position(), error.what()));
  }
  return document;
}

}  // namespace hooked
