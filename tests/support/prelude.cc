// The source that tests/support/prelude.h is precompiled for; it has no content of its own.
