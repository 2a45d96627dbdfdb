// The letters of names in the XDR language (RFC 4506 §6.2).
#ifndef RPCRDMA_GEN_LETTERS_H_
#define RPCRDMA_GEN_LETTERS_H_

namespace rpcrdma::gen {

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_word(char c) {
  return is_letter(c) || is_digit(c);
}

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_GEN_LETTERS_H_
