#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hooked {

/// An element of an XML document, for looking at pictures in tests.
struct SvgElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  ///< its own, unescaped
  std::vector<SvgElement> children;

  std::string attribute(const std::string& key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? "" : found->second;
  }
  double number(const std::string& key) const { return std::stod(attribute(key)); }
  bool has_class(std::string_view wanted) const {
    return (' ' + attribute("class") + ' ').find(' ' + std::string(wanted) + ' ') != std::string::npos;
  }
  /// The first child of that name, or null.
  const SvgElement* child(std::string_view wanted) const {
    for (const auto& element : children) {
      if (element.name == wanted) return &element;
    }
    return nullptr;
  }
  /// This and all inside for which `holds(element)`.
  template <class Condition>
  std::vector<const SvgElement*> all(Condition holds) const {
    std::vector<const SvgElement*> found;
    if (holds(*this)) found.push_back(this);
    for (const auto& element : children) {
      for (const auto* inner : element.all(holds)) found.push_back(inner);
    }
    return found;
  }
};

/// Reads the part of XML 1.0 that pictures are written in: elements, attributes in double quotes and the
/// predefined entities. Throws std::runtime_error where the document is not well-formed.
class SvgReader {
 public:
  static SvgElement read(std::string_view text) {
    SvgReader reader(text);
    auto root = reader.element();
    reader.blanks();
    if (reader.at_ < text.size()) reader.fail("something follows the root");
    return root;
  }

 private:
  explicit SvgReader(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " at byte " + std::to_string(at_));
  }
  char peek() const {
    if (at_ >= text_.size()) fail("the document ends");
    return text_[at_];
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail("expected '" + std::string(word) + "'");
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  std::string name() {
    const auto begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '-' || peek() == ':') ++at_;
    if (begin == at_) fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  /// One character of content or of an attribute.
  std::string character() {
    if (peek() == '&') {
      for (const auto& [entity, meaning] :
           {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}, {"&quot;", "\""}}) {
        if (take(entity)) return meaning;
      }
      fail("unknown entity");
    }
    const auto lead = static_cast<unsigned char>(peek());
    if (lead < 0x20 && lead != '\n') fail("control character");
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4) fail("not UTF-8");
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const auto bytes = text_.substr(at_, size);
    if (bytes.size() < size) fail("not UTF-8");
    for (const char c : bytes.substr(1)) {
      if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) fail("not UTF-8");
    }
    if (bytes == "\xEF\xBF\xBE" || bytes == "\xEF\xBF\xBF") fail("a character that XML does not have");
    at_ += size;
    return std::string(bytes);
  }
  SvgElement element() {
    expect("<");
    SvgElement read;
    read.name = name();
    for (blanks(); peek() != '>' && peek() != '/'; blanks()) {
      const auto key = name();
      expect("=\"");
      std::string value;
      while (peek() != '"') {
        if (peek() == '<') fail("'<' in an attribute");
        value += character();
      }
      expect("\"");
      if (peek() != ' ' && peek() != '>' && peek() != '/') fail("expected a blank after an attribute");
      if (!read.attributes.emplace(key, value).second) fail("attribute " + key + " occurs twice");
    }
    if (take("/>")) return read;
    expect(">");
    while (!take("</")) {
      if (peek() == '<') {
        read.children.push_back(element());
      } else {
        read.text += character();
      }
    }
    expect(read.name);
    expect(">");
    return read;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace hooked
