#ifdef HOOKED_MUST_NOT_COMPILE
int accepted() { return 0; }  // expect: no such message
#endif
