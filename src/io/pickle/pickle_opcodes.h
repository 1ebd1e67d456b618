#pragma once

#include <cstdint>
#include <string>

namespace hooked {

/// The opcodes that describe data. Their bytes are those of Python's pickle module, protocols 2 to 5.
enum class Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8A,
  kLong4 = 0x8B,
  kShortBinUnicode = 0x8C,
  kBinUnicode8 = 0x8D,
  kBinBytes8 = 0x8E,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

/// The opcode's name in Python's pickle module, also for opcodes that are not read; `0x` and its number if
/// Python has none.
std::string opcode_text(std::uint8_t opcode);

}  // namespace hooked
