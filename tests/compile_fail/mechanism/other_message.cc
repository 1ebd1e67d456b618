#ifdef HOOKED_MUST_NOT_COMPILE
int wrong() { return ""; }  // expect: no such message
int unexpected() { return ""; }
#endif
