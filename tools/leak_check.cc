// Options of AddressSanitizer for the command, which is built with this file only where it has
// ASan.
//
// To look for leaks takes a third of a short command's time, most of it page faults, and tests
// start thousands. So it does that only when ASAN_OPTIONS says detect_leaks=1, as `make check-all`
// does, and a few tests of `make check`.
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "detect_leaks=0";
}
