#include "gss/krb5/mechanism.h"

#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "gss/krb5/errors.h"
#include "gss/krb5/handles.h"

namespace rpcrdma::gss::krb5 {
namespace {

gss_OID mechanism() noexcept {
  return const_cast<gss_OID>(gss_mech_krb5);  // as GSS-API wants it; it changes nothing
}

gss_buffer_desc buffer_of(Bytes bytes) noexcept {
  return {bytes.size(), const_cast<std::byte*>(bytes.data())};
}
gss_buffer_desc buffer_of(std::string_view text) noexcept {
  return {text.size(), const_cast<char*>(text.data())};
}
gss_iov_buffer_desc part_of(OM_uint32 type, Bytes bytes) noexcept {
  return {type, buffer_of(bytes)};
}

// The places of credentials, by MIT's names for them.
class Store {
 public:
  void add(const char* key, const std::string& value) {
    if (!value.empty()) elements_[count_++] = {key, value.c_str()};
  }
  // Null: the system's own.
  gss_const_key_value_set_t get() noexcept {
    set_ = {static_cast<OM_uint32>(count_), elements_.data()};
    return count_ > 0 ? &set_ : nullptr;
  }

 private:
  std::array<gss_key_value_element_desc, 2> elements_{};
  std::size_t count_ = 0;
  gss_key_value_set_desc set_{};
};

Status import(std::string_view service, Name& name) {
  gss_buffer_desc text = buffer_of(service);
  OM_uint32 minor = 0;
  const OM_uint32 major = gss_import_name(&minor, &text, GSS_C_NT_HOSTBASED_SERVICE, name.to_set());
  return status_of("the name of the service", major, minor);
}

Status acquire(gss_name_t name, gss_cred_usage_t usage, Store& store, Credentials& credentials) {
  gss_OID_set_desc mechanisms{1, mechanism()};
  OM_uint32 minor = 0;
  const OM_uint32 major =
      gss_acquire_cred_from(&minor, name, GSS_C_INDEFINITE, &mechanisms, usage, store.get(),
                            credentials.to_set(), nullptr, nullptr);
  return status_of(usage == GSS_C_ACCEPT ? "the keys of this service" : "the ticket of the caller",
                   major, minor);
}

// A context's parts that are the same for both sides.
class Krb5Context : public Context {
 public:
  std::optional<std::chrono::seconds> lifetime() const final {
    OM_uint32 minor = 0, seconds = 0;
    if (gss_context_time(&minor, context_.get(), &seconds) != GSS_S_COMPLETE) {
      return std::chrono::seconds{0};
    }
    if (seconds == GSS_C_INDEFINITE) return std::nullopt;
    return std::chrono::seconds{seconds};
  }

  Status checksum(std::span<const Bytes> pieces, std::vector<std::byte>& checksum) final {
    checksum.resize(checksum_size_);
    gather(pieces, checksum);
    OM_uint32 minor = 0;
    const OM_uint32 major = gss_get_mic_iov(&minor, context_.get(), GSS_C_QOP_DEFAULT,
                                            parts_.data(), static_cast<int>(parts_.size()));
    return status_of("a checksum", major, minor);
  }
  bool is_checksum_of(std::span<const Bytes> pieces, Bytes checksum) final {
    gather(pieces, checksum);
    OM_uint32 minor = 0;
    gss_qop_t quality = 0;
    const OM_uint32 major = gss_verify_mic_iov(&minor, context_.get(), &quality, parts_.data(),
                                               static_cast<int>(parts_.size()));
    // Without sequencing there is nothing to supplement.
    return major == GSS_S_COMPLETE && quality == GSS_C_QOP_DEFAULT;
  }

  std::size_t wrap_header_size() const final { return header_size_; }
  std::size_t wrap_trailer_size() const final { return trailer_size_; }
  Status wrap(MutableBytes whole) final {
    RPCRDMA_ASSERT(whole.size() >= header_size_ + trailer_size_, "no room for a token");
    const std::size_t size = whole.size() - header_size_ - trailer_size_;
    std::array<gss_iov_buffer_desc, 4> parts{
        part_of(GSS_IOV_BUFFER_TYPE_HEADER, whole.first(header_size_)),
        part_of(GSS_IOV_BUFFER_TYPE_DATA, whole.subspan(header_size_, size)),
        part_of(GSS_IOV_BUFFER_TYPE_PADDING, {}),
        part_of(GSS_IOV_BUFFER_TYPE_TRAILER, whole.last(trailer_size_))};
    OM_uint32 minor = 0;
    int is_private = 0;
    const OM_uint32 major = gss_wrap_iov(&minor, context_.get(), 1, GSS_C_QOP_DEFAULT, &is_private,
                                         parts.data(), static_cast<int>(parts.size()));
    Status status = status_of("enciphering", major, minor);
    if (status.is_error()) return status;
    if (is_private == 0) return refused("the context does not encipher");
    // Bytes of the room that it leaves unwritten would go out as they are.
    if (parts[0].buffer.length != header_size_ || parts[3].buffer.length != trailer_size_) {
      return refused("a token has another size than measured");
    }
    return status;
  }
  std::optional<MutableBytes> unwrap(MutableBytes token) final {
    std::array<gss_iov_buffer_desc, 2> parts{part_of(GSS_IOV_BUFFER_TYPE_STREAM, token),
                                             part_of(GSS_IOV_BUFFER_TYPE_DATA, {})};
    OM_uint32 minor = 0;
    int is_private = 0;
    gss_qop_t quality = 0;
    const OM_uint32 major = gss_unwrap_iov(&minor, context_.get(), &is_private, &quality,
                                           parts.data(), static_cast<int>(parts.size()));
    if (major != GSS_S_COMPLETE || is_private == 0 || quality != GSS_C_QOP_DEFAULT) {
      return std::nullopt;
    }
    const gss_buffer_desc& data = parts[1].buffer;
    return MutableBytes{static_cast<std::byte*>(data.value), data.length};
  }

  std::string_view principal() const final { return principal_; }
  std::string local_user() final {
    Buffer text;
    OM_uint32 minor = 0;
    const bool is_somebody =
        peer_.get() != GSS_C_NO_NAME &&
        gss_localname(&minor, peer_.get(), mechanism(), text.to_set()) == GSS_S_COMPLETE;
    return is_somebody ? std::string(text.text()) : std::string();
  }

 protected:
  static Status refused(std::string text) { return {Status::kFailure, 0, std::move(text)}; }
  // Checks that a complete context has the mechanism and the properties that we require.
  Status settle(OM_uint32 flags, gss_OID used) {
    if (used == GSS_C_NO_OID || gss_oid_equal(used, mechanism()) == 0) {
      return refused("the other side uses another mechanism than Kerberos 5");
    }
    constexpr OM_uint32 kNeeded = GSS_C_INTEG_FLAG | GSS_C_CONF_FLAG | GSS_C_MUTUAL_FLAG;
    if ((flags & kNeeded) != kNeeded) {
      return refused("the context lacks integrity, privacy or mutual authentication");
    }
    // Numbers are kept by RPCSEC_GSS, and calls overtake each other (RFC 2203 §5.2.1).
    if ((flags & (GSS_C_REPLAY_FLAG | GSS_C_SEQUENCE_FLAG)) != 0) {
      return refused("the other side wants the mechanism to number messages");
    }
    return measure();
  }
  gss_ctx_id_t* context_to_set() noexcept { return context_.to_set(); }
  Name& peer() noexcept { return peer_; }
  void set_principal(std::string_view text) { principal_ = text; }

 private:
  // `checksum` is written, or compared with.
  void gather(std::span<const Bytes> pieces, Bytes checksum) {
    parts_.clear();
    for (const Bytes piece : pieces) parts_.push_back(part_of(GSS_IOV_BUFFER_TYPE_DATA, piece));
    parts_.push_back(part_of(GSS_IOV_BUFFER_TYPE_MIC_TOKEN, checksum));
  }

  // Sizes, which depend on the key of the context alone (gss.md G-6).
  Status measure() {
    std::array<gss_iov_buffer_desc, 2> checksum{part_of(GSS_IOV_BUFFER_TYPE_DATA, {}),
                                                part_of(GSS_IOV_BUFFER_TYPE_MIC_TOKEN, {})};
    OM_uint32 minor = 0;
    OM_uint32 major = gss_get_mic_iov_length(&minor, context_.get(), GSS_C_QOP_DEFAULT,
                                             checksum.data(), static_cast<int>(checksum.size()));
    if (GSS_ERROR(major)) return status_of("the size of checksums", major, minor);
    checksum_size_ = checksum[1].buffer.length;
    constexpr std::array<std::byte, 5> kSample{};
    std::array<gss_iov_buffer_desc, 4> token{
        part_of(GSS_IOV_BUFFER_TYPE_HEADER, {}), part_of(GSS_IOV_BUFFER_TYPE_DATA, kSample),
        part_of(GSS_IOV_BUFFER_TYPE_PADDING, {}), part_of(GSS_IOV_BUFFER_TYPE_TRAILER, {})};
    major = gss_wrap_iov_length(&minor, context_.get(), 1, GSS_C_QOP_DEFAULT, nullptr, token.data(),
                                static_cast<int>(token.size()));
    if (GSS_ERROR(major)) return status_of("the size of tokens", major, minor);
    if (token[2].buffer.length != 0) return refused("the key is of an old kind, which pads");
    header_size_ = token[0].buffer.length;
    trailer_size_ = token[3].buffer.length;
    return {};
  }

  SecurityContext context_;
  Name peer_;  // an acceptor's
  std::string principal_;
  std::size_t checksum_size_ = 0, header_size_ = 0, trailer_size_ = 0;  // bytes
  std::vector<gss_iov_buffer_desc> parts_;  // of one call at a time; kept for the next one
};

class Initiating final : public Krb5Context {
 public:
  Status prepare(const Settings& settings, std::string_view service) {
    if (Status status = import(service, service_); status.is_error()) return status;
    Store store;
    store.add("ccache", settings.tickets);
    store.add("client_keytab", settings.client_keytab);
    return acquire(GSS_C_NO_NAME, GSS_C_INITIATE, store, credentials_);
  }
  Status step(Bytes token, std::vector<std::byte>& answer) override {
    gss_buffer_desc input = buffer_of(token);
    Buffer output;
    gss_OID used = GSS_C_NO_OID;
    OM_uint32 minor = 0, flags = 0;
    const OM_uint32 major = gss_init_sec_context(
        &minor, credentials_.get(), context_to_set(), service_.get(), mechanism(),
        GSS_C_MUTUAL_FLAG, 0, GSS_C_NO_CHANNEL_BINDINGS, token.empty() ? GSS_C_NO_BUFFER : &input,
        &used, output.to_set(), &flags, nullptr);
    answer.assign(output.bytes().begin(), output.bytes().end());
    if (major == GSS_S_COMPLETE) return settle(flags, used);
    return status_of("a context with the server", major, minor);
  }

 private:
  Name service_;
  Credentials credentials_;
};

class Accepting final : public Krb5Context {
 public:
  explicit Accepting(gss_cred_id_t credentials) : credentials_(credentials) {}
  Status step(Bytes token, std::vector<std::byte>& answer) override {
    gss_buffer_desc input = buffer_of(token);
    Buffer output;
    gss_OID used = GSS_C_NO_OID;
    OM_uint32 minor = 0, flags = 0;
    const OM_uint32 major = gss_accept_sec_context(
        &minor, context_to_set(), credentials_, &input, GSS_C_NO_CHANNEL_BINDINGS, peer().to_set(),
        &used, output.to_set(), &flags, nullptr, nullptr);
    answer.assign(output.bytes().begin(), output.bytes().end());
    if (major != GSS_S_COMPLETE) return status_of("a context with a client", major, minor);
    Buffer text;
    if (gss_display_name(&minor, peer().get(), text.to_set(), nullptr) == GSS_S_COMPLETE) {
      set_principal(text.text());
    }
    return settle(flags, used);
  }

 private:
  const gss_cred_id_t credentials_;  // the mechanism's
};

class Krb5 final : public Mechanism {
 public:
  explicit Krb5(Settings settings) : settings_(std::move(settings)) {}

  Expected<std::unique_ptr<Context>, Status> initiate(std::string_view service) override {
    auto made = std::make_unique<Initiating>();
    if (Status status = made->prepare(settings_, service); status.is_error()) {
      return Unexpected<Status>(std::move(status));
    }
    return made;
  }
  Expected<std::unique_ptr<Context>, Status> accept() override {
    const std::lock_guard lock(mutex_);
    if (keys_.get() == GSS_C_NO_CREDENTIAL) {
      // Not done for each client that asks: the file is read, and MIT's library (1.20) loses some
      // bytes each time that it finds none.
      const auto now = std::chrono::steady_clock::now();
      if (now >= retry_at_) {
        why_not_ = acquire_keys();
        retry_at_ = now + kPause;
      }
      if (why_not_.is_error()) return Unexpected<Status>(why_not_);
    }
    return std::make_unique<Accepting>(keys_.get());
  }

 private:
  Status acquire_keys() {
    Name name;
    if (!settings_.service.empty()) {
      if (Status status = import(settings_.service, name); status.is_error()) return status;
    }
    Store store;
    store.add("keytab", settings_.keytab);
    return acquire(name.get(), GSS_C_ACCEPT, store, keys_);
  }

  static constexpr std::chrono::seconds kPause{1};

  const Settings settings_;
  std::mutex mutex_;
  Credentials keys_;  // guarded by mutex_ until they are there; the library locks them
  // Guarded by mutex_.
  Status why_not_;
  std::chrono::steady_clock::time_point retry_at_{};
};

}  // namespace

std::unique_ptr<Mechanism> make(Settings settings) {
  return std::make_unique<Krb5>(std::move(settings));
}

}  // namespace rpcrdma::gss::krb5
