// expect: no such message
#ifdef HOOKED_MUST_NOT_COMPILE
int accepted() { return 0; }
#endif
