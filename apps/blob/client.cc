#include "blob/client.h"

#include <iterator>
#include <utility>

#include "blob/status.h"

namespace blob {

using rpcrdma::Client;
using rpcrdma::Errc;
using rpcrdma::Error;
using rpcrdma::Unexpected;

namespace {

// Attributes a failure to the caller or to the server.
Errc code_of(blob_status status) {
  switch (status) {
    case blob_status::BLOB_NO_SUCH_BLOB:
      return Errc::kNotAvailable;
    case blob_status::BLOB_BAD_NAME:
    case blob_status::BLOB_NOT_A_FILE:
      return Errc::kBadArguments;
    case blob_status::BLOB_NO_SPACE:
      return Errc::kNoResources;
    case blob_status::BLOB_READ_ONLY:
      return Errc::kDenied;
    case blob_status::BLOB_OK:
    case blob_status::BLOB_NO_SUCH_UPLOAD:
    case blob_status::BLOB_CONFLICT:
    case blob_status::BLOB_BAD_RANGE:
    case blob_status::BLOB_INCOMPLETE:
    case blob_status::BLOB_SUM_MISMATCH:
    case blob_status::BLOB_IO_ERROR:
      break;
  }
  return Errc::kServerFault;
}

}  // namespace

Error BlobClient::failure(const Client& client, std::string_view what, blob_status status) {
  const Errc code = code_of(status);
  return {code, std::string(what), std::string(client.connection().peer_address),
          std::string(explain(status))};
}

std::optional<Error> BlobClient::error_of(const Client& client, const Result<blob_status>& status,
                                          std::string_view what) {
  if (!status) return status.error();
  if (*status != blob_status::BLOB_OK) return failure(client, what, *status);
  return std::nullopt;
}

// Reading a whole file to sum it takes the server time that grows with the file. 0: as every call.
std::chrono::nanoseconds BlobClient::time_to_sum(std::uint64_t size) const {
  if (!options_.more_time_to_sum) return {};
  return std::chrono::seconds(60 + size / (50U << 20U));
}

BlobClient::Result<stat_ok> BlobClient::stat(std::string_view name) {
  const auto results = stub_.BLOB_STAT(std::string(name));
  if (!results) return Unexpected<Error>(results.error());
  if (results->ok() == nullptr) {
    return Unexpected<Error>(failure(client_, "stat", results->status()));
  }
  return *results->ok();
}

BlobClient::Result<blob_sum> BlobClient::sum(std::string_view name, std::uint64_t size_hint) {
  const auto results = stub_.BLOB_SUM(std::string(name), {.timeout = time_to_sum(size_hint)});
  if (!results) return Unexpected<Error>(results.error());
  if (results->sum() == nullptr) {
    return Unexpected<Error>(failure(client_, "sum", results->status()));
  }
  return *results->sum();
}

BlobClient::Result<std::vector<list_entry>> BlobClient::list(std::uint64_t entries_max) {
  const auto bad_reply = [this](std::string cause) {
    return Unexpected<Error>(Error{
        Errc::kBadReply, "list", std::string(client_.connection().peer_address), std::move(cause)});
  };
  std::vector<list_entry> entries;
  std::uint64_t cookie = 0;
  for (bool end = false; !end;) {
    auto results = stub_.BLOB_LIST(cookie);
    if (!results) return Unexpected<Error>(results.error());
    list_ok* const listed = results->ok();
    if (listed == nullptr) {
      return Unexpected<Error>(failure(client_, "list", results->status()));
    }
    end = listed->end;
    if (!end && (listed->cookie <= cookie || listed->entries.empty())) {
      return bad_reply("the server's list does not go on: it does not keep to the blob program");
    }
    if (listed->entries.size() > entries_max - entries.size()) {
      return bad_reply("the server lists more than " + std::to_string(entries_max) +
                       " files; allow more with --entries-max");
    }
    std::ranges::move(listed->entries, std::back_inserter(entries));
    cookie = listed->cookie;
  }
  std::ranges::sort(entries, {}, &list_entry::name);
  return entries;
}

BlobClient::Result<bool> BlobClient::remove(std::string_view name) {
  if (auto error = error_of(client_, stub_.BLOB_REMOVE(std::string(name)), "removing")) {
    return Unexpected<Error>(std::move(*error));
  }
  return true;
}

}  // namespace blob
