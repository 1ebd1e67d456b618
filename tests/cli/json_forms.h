#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace hooked {

/// The forms of JSON values that a page defines in its blocks ```forms, in the notation that
/// docs/command-line.md explains. It compares values with them, and remembers which keys it has seen.
class JsonForms {
 public:
  /// Throws std::runtime_error for text that is no form.
  explicit JsonForms(const std::string& page) : text_(blocks_of(page)) {
    for (skip(); at_ < text_.size(); skip()) {
      owner_ = word();
      expect("=");
      if (!forms_.emplace(owner_, either()).second) fail("is defined twice");
    }
  }

  /// The names of all forms, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, form] : forms_) names.push_back(name);
    return names;
  }

  /// What is wrong with a value of the form `name`, one line each.
  std::vector<std::string> problems(const Json& value, const std::string& name) {
    const Found found = compare(Form{Form::named, name, {}, {}}, value, name);
    note(found);
    return found.problems;
  }

  /// Keys that no value had, keys with `?` that no value lacked, and forms that no value had.
  std::vector<std::string> never_seen() const {
    std::vector<std::string> lines;
    for (const auto& [name, form] : forms_) {
      if (!seen_forms_.contains(name)) lines.push_back(name);
      add_never_seen(form, lines);
    }
    return lines;
  }

 private:
  struct Key;
  struct Form {
    enum Kind { named, literal, array, object, map, either } kind;
    std::string word;         // of a name or literal
    std::vector<Form> parts;  // of an array, a map, or alternatives
    std::vector<Key> keys;    // of an object
  };
  struct Key {
    std::string name;   // of a spread: the form whose keys these are
    std::string where;  // `run.rows`
    bool optional, spread;
    Form form;
  };
  struct Found {
    std::vector<std::string> problems;
    std::set<std::string> forms, present, absent;  // names of forms; keys by their `where`

    void add(Found other) {
      problems.insert(problems.end(), other.problems.begin(), other.problems.end());
      forms.merge(other.forms);
      present.merge(other.present);
      absent.merge(other.absent);
    }
  };

  static std::string blocks_of(const std::string& page) {
    constexpr std::string_view kBegin = "\n```forms\n", kEnd = "\n```\n";
    std::string text;
    for (auto at = page.find(kBegin); at != std::string::npos; at = page.find(kBegin, at)) {
      at += kBegin.size();
      const auto end = page.find(kEnd, at);
      text += page.substr(at, end - at) + '\n';
    }
    return text;
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw std::runtime_error(fmt::format("{}: {} at: {}", owner_, what, text_.substr(at_, 40)));
  }

  // Skips white space and comments.
  void skip() {
    while (at_ < text_.size()) {
      if (text_.compare(at_, 2, "//") == 0) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool take(std::string_view mark) {
    skip();
    if (text_.compare(at_, mark.size(), mark) != 0) return false;
    at_ += mark.size();
    return true;
  }
  void expect(std::string_view mark) {
    if (!take(mark)) fail(fmt::format("expected '{}'", mark));
  }

  std::string word() {
    skip();
    const auto begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    if (at_ == begin) fail("expected a name");
    return text_.substr(begin, at_ - begin);
  }

  Form either() {
    Form first = single();
    if (!take("|")) return first;
    Form form{Form::either, {}, {std::move(first)}, {}};
    do form.parts.push_back(single());
    while (take("|"));
    return form;
  }

  Form single() {
    if (take("[")) {
      Form form{Form::array, {}, {either()}, {}};
      expect("]");
      return form;
    }
    if (take("\"")) {
      Form form{Form::literal, word(), {}, {}};
      expect("\"");
      return form;
    }
    if (!take("{")) return {Form::named, word(), {}, {}};
    if (take("*")) {
      expect(":");
      Form form{Form::map, {}, {either()}, {}};
      expect("}");
      return form;
    }
    Form form{Form::object, {}, {}, {}};
    do form.keys.push_back(key());
    while (take(","));
    expect("}");
    return form;
  }

  Key key() {
    const bool spread = take("...");
    Key key{word(), {}, false, spread, {}};
    key.where = fmt::format("{}.{}", owner_, key.name);
    if (spread) return key;
    key.optional = take("?");
    expect(":");
    const std::string outer = std::exchange(owner_, key.where);
    key.form = either();
    owner_ = outer;
    return key;
  }

  const Form& form_of(const std::string& name) const {
    const auto found = forms_.find(name);
    if (found == forms_.end()) throw std::runtime_error("no form is called " + name);
    return found->second;
  }

  // Those of a spread in its place; notes the names of spread forms.
  void add_keys(const Form& object, std::vector<const Key*>& keys, Found& found) const {
    for (const Key& key : object.keys) {
      if (key.spread) {
        found.forms.insert(key.name);
        add_keys(form_of(key.name), keys, found);
      } else {
        keys.push_back(&key);
      }
    }
  }

  static bool is_real(const Json& value) {
    return value.is_number() || value.is_null() || value == "inf" || value == "-inf";
  }

  // Whether the value has a form that is not defined on the page; nothing is known about other names.
  static std::optional<bool> is_word(const std::string& word, const Json& value) {
    if (word == "null") return value.is_null();
    if (word == "text") return value.is_string();
    if (word == "int") return value.is_number_integer();
    if (word == "bool") return value.is_boolean();
    if (word == "real") return is_real(value);
    if (word == "any") return true;
    return std::nullopt;
  }

  static Found wrong(const std::string& path, std::string_view expected, const Json& value) {
    Found found;
    found.problems.push_back(
        fmt::format("{}: expected {}, got {}", path, expected, json_text(value).substr(0, 60)));
    return found;
  }

  Found compare(const Form& form, const Json& value, const std::string& path) const {
    switch (form.kind) {
      case Form::named: {
        if (const auto fits = is_word(form.word, value))
          return *fits ? Found() : wrong(path, form.word, value);
        Found found = compare(form_of(form.word), value, path);
        found.forms.insert(form.word);
        return found;
      }
      case Form::literal:
        return value == form.word ? Found() : wrong(path, '"' + form.word + '"', value);
      case Form::either:
        return compare_either(form, value, path);
      case Form::array:
        return value.is_array() ? compare_items(form, value, path) : wrong(path, "an array", value);
      case Form::map:
        return value.is_object() ? compare_items(form, value, path) : wrong(path, "an object", value);
      case Form::object:
        return value.is_object() ? compare_object(form, value, path) : wrong(path, "an object", value);
    }
    return {};
  }

  // The alternative with the fewest problems.
  Found compare_either(const Form& form, const Json& value, const std::string& path) const {
    Found best = compare(form.parts.back(), value, path);
    for (const Form& part : form.parts) {
      Found found = compare(part, value, path);
      if (found.problems.size() < best.problems.size()) best = std::move(found);
    }
    return best;
  }

  Found compare_items(const Form& form, const Json& value, const std::string& path) const {
    Found found;
    for (const auto& [key, item] : value.items())
      found.add(compare(form.parts.front(), item, fmt::format("{}[{}]", path, key)));
    return found;
  }

  Found compare_object(const Form& form, const Json& value, const std::string& path) const {
    Found found;
    std::vector<const Key*> keys;
    add_keys(form, keys, found);
    for (const auto& [name, member] : value.items()) {
      const auto known = [&name = name](const Key* key) { return key->name == name; };
      if (std::none_of(keys.begin(), keys.end(), known))
        found.problems.push_back(fmt::format("{}.{}: the page does not have this key", path, name));
    }
    for (const Key* key : keys) {
      const auto member = value.find(key->name);
      const std::string inner = path + '.' + key->name;
      if (member != value.end()) {
        found.present.insert(key->where);
        found.add(compare(key->form, *member, inner));
        continue;
      }
      found.absent.insert(key->where);
      if (!key->optional) found.problems.push_back(inner + ": the key is missing");
    }
    return found;
  }

  void note(Found found) {
    seen_forms_.merge(found.forms);
    present_.merge(found.present);
    absent_.merge(found.absent);
  }

  void add_never_seen(const Form& form, std::vector<std::string>& lines) const {
    for (const Form& part : form.parts) add_never_seen(part, lines);
    for (const Key& key : form.keys) {
      if (key.spread) continue;
      if (!present_.contains(key.where)) lines.push_back(key.where);
      if (key.optional && !absent_.contains(key.where)) lines.push_back(key.where + "?");
      add_never_seen(key.form, lines);
    }
  }

  std::string text_;
  std::size_t at_ = 0;
  std::string owner_;  // of what is being read
  std::map<std::string, Form> forms_;
  std::set<std::string> seen_forms_, present_, absent_;
};

}  // namespace hooked
