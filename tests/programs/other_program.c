/* A program of another library than libtirpc. */
int use_other_library(void);

int main(void) { return use_other_library() ? 0 : 1; }
