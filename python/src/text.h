#pragma once

// Conversations, whose parts C++ takes as JSON and Python as objects.

#include "python/src/bind.h"

namespace hooked::python {

/// Messages: each a ChatMessage or a dict, whose members besides role and content may be anything that JSON
/// can say.
std::vector<ChatMessage> chat_messages(nb::handle given);
/// The options, of which tools, documents and the values of variables are objects or, as in C++, JSON.
ChatOptions chat_options(nb::handle given, const char* of);

/// A function of a conversation.
template <typename Class, typename Result>
void define_chat(nb::class_<Class>& where, const char* name, std::string_view declared,
                 Result (Class::*function)(const std::vector<ChatMessage>&, const ChatOptions&) const) {
  SignatureText text(name);
  text.add_self();
  text.add("messages", "collections.abc.Iterable[ChatMessage | collections.abc.Mapping[str, typing.Any]]",
           {});
  text.keywords_follow();
  Fields<ChatOptions>::visit([&](const auto& field) {
    const std::string_view option = field.name;
    const bool json = option == "tools" || option == "documents" || option == "variables";
    using Member = FieldType<std::remove_cvref_t<decltype(field)>>;
    text.add(option, json ? "typing.Any" : type_text<Given<Member>>(),
             default_text(ChatOptions().*(field.member)));
  });
  where.def(
      name,
      [function, name](const Class& self, nb::handle messages, nb::kwargs given) {
        const std::vector<ChatMessage> conversation = chat_messages(messages);
        const ChatOptions options = chat_options(given, name);
        const nb::gil_scoped_release released;
        return (self.*function)(conversation, options);
      },
      nb::arg("messages"), nb::arg("options"), nb::sig(text.returning(result_text<Result>()).c_str()),
      documentation_with_options(declared, "ChatOptions"));
}

}  // namespace hooked::python
