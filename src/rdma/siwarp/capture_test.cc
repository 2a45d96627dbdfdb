#include "rdma/siwarp/capture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "base/random.h"
#include "iwarp/byte_order.h"
#include "iwarp/headers.h"
#include "iwarp/mpa.h"
#include "rdma/siwarp/nodes_for_test.h"

namespace rpcrdma::rdma::siwarp::test {
namespace {

using iwarp::load16;
using iwarp::load32;

class CaptureFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  static std::uint32_t native32(const std::byte* from) {
    std::uint32_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  static std::uint32_t native16(const std::byte* from) {
    std::uint16_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  Buffer content() const {
    std::ifstream file(path_, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    Buffer bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  }
  // Ethernet frames in the file; checks the structure of all blocks on the way.
  static std::vector<Buffer> packets(const Buffer& file) {
    std::vector<Buffer> found;
    for (std::size_t at = 0; at < file.size();) {
      const std::uint32_t type = native32(&file[at]);
      const std::uint32_t size = native32(&file[at + 4]);
      EXPECT_EQ(size % 4, 0U);
      EXPECT_LE(at + size, file.size());
      EXPECT_EQ(native32(&file[at + size - 4]), size);
      if (at == 0) {
        EXPECT_EQ(type, 0x0a0d0d0aU);
        EXPECT_EQ(native32(&file[8]), 0x1a2b3c4dU);
      }
      if (type == 1) {
        EXPECT_EQ(native16(&file[at + 8]), 1U) << "LINKTYPE_ETHERNET";
        EXPECT_EQ(native16(&file[at + 10]), 0U) << "reserved";
      }
      if (type == 6) {
        const std::uint32_t captured = native32(&file[at + 20]);
        const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at + 28);
        found.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(captured));
      }
      at += size;
    }
    return found;
  }
  static std::uint32_t sum(Bytes bytes) {
    std::uint32_t total = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      total += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8U : 0U);
      total = (total & 0xffffU) + (total >> 16U);
    }
    return total;
  }
  // Bytes per source port, put together by their sequence numbers.
  static std::map<unsigned, Buffer> streams(const std::vector<Buffer>& packets) {
    std::map<unsigned, Buffer> bytes;
    std::map<unsigned, std::uint32_t> next;
    for (const Buffer& packet : packets) {
      const Bytes ip = Bytes(packet).subspan(14);
      EXPECT_EQ(load16(&ip[2]), ip.size());
      EXPECT_LE(ip.size(), 65'000U);
      EXPECT_EQ(sum(ip.first(20)), 0xffffU) << "IP checksum";
      const Bytes tcp = ip.subspan(20);
      std::array<std::byte, 12> pseudo{};
      std::memcpy(pseudo.data(), &ip[12], 8);
      pseudo[9] = std::byte{6};
      iwarp::store16(&pseudo[10], static_cast<std::uint16_t>(tcp.size()));
      const std::uint32_t both = sum(pseudo) + sum(tcp);
      EXPECT_EQ((both & 0xffffU) + (both >> 16U), 0xffffU) << "TCP checksum";
      const unsigned port = load16(tcp.data());
      const auto flags = std::to_integer<unsigned>(tcp[13]);
      const bool acknowledges = (flags & 16U) != 0;
      EXPECT_EQ(load32(&tcp[8]), acknowledges ? next[load16(&tcp[2])] : 0U);
      if ((flags & 2U) != 0) next[port] = load32(&tcp[4]) + 1;
      if ((flags & 1U) != 0) ++next[port];
      if ((flags & 3U) != 0 || tcp.size() == 20) continue;
      EXPECT_EQ(load32(&tcp[4]), next[port]);
      next[port] += static_cast<std::uint32_t>(tcp.size() - 20);
      bytes[port].insert(bytes[port].end(), tcp.begin() + 20, tcp.end());
    }
    return bytes;
  }

  // "ADDR:PORT ADDR:PORT", source and destination.
  static std::string ends_of(const Buffer& packet) {
    const std::byte* ip = &packet[14];
    const bool six = load16(&packet[12]) == 0x86dd;
    const std::byte* tcp = ip + (six ? 40 : 20);
    const auto end = [&](const std::byte* host, const std::byte* port) {
      posix::Address address;
      address.storage.ss_family = six ? AF_INET6 : AF_INET;
      auto* bytes = reinterpret_cast<std::byte*>(&address.storage);
      std::memcpy(bytes + 2, port, 2);
      std::memcpy(bytes + (six ? 8 : 4), host, six ? 16 : 4);
      address.size = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
      return posix::to_string(address);
    };
    return six ? end(ip + 8, tcp) + " " + end(ip + 24, tcp + 2)
               : end(ip + 12, tcp) + " " + end(ip + 16, tcp + 2);
  }

  std::string path_ = testing::TempDir() + "rpcrdma_capture_" + std::to_string(getpid()) + "_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".pcapng";
};

TEST_F(CaptureFile, HoldsBothDirectionsWithValidChecksumsAndAcknowledgements) {
  Counters counters;
  unsigned server_port = 0;
  {
    Options recording;
    recording.capture_file = path_;
    Nodes nodes(recording);
    End client;
    End server;
    nodes.connect(client, server);
    const std::string_view address = client.queue_pair->peer_address();
    server_port = static_cast<unsigned>(std::stoul(std::string(address.substr(10))));
    const Remote room = server.expose(0, 200'000, RemoteAccess::kWrite);
    const Slice from = client.slice(0, 200'000);
    ASSERT_TRUE(client.post(1, Write{{&from, 1}, room}, false));
    nodes.say(client, server);
    nodes.say(server, client);
    counters = client.queue_pair->counters();
  }
  const auto found = streams(packets(content()));
  ASSERT_EQ(found.size(), 2U);
  for (const auto& [port, bytes] : found) {
    const bool from_server = port == server_port;
    EXPECT_EQ(std::memcmp(bytes.data(), from_server ? "MPA ID Rep" : "MPA ID Req", 10), 0);
    const std::uint64_t expected = from_server ? counters.bytes_received : counters.bytes_sent;
    EXPECT_EQ(bytes.size(), expected + 24);
  }
}

TEST_F(CaptureFile, NamesBothEndsOfAConnection) {
  for (const char* const ends :
       {"192.0.2.1:1025 198.51.100.2:20049", "[2001:db8::1]:1025 [::2]:7"}) {
    const std::string_view both(ends);
    const auto local = posix::parse_address(both.substr(0, both.find(' ')));
    const auto remote = posix::parse_address(both.substr(both.find(' ') + 1));
    ASSERT_TRUE(local && remote);
    {
      auto capture = Capture::open(path_, 1 << 20U);
      ASSERT_TRUE(capture);
      CaptureFlow flow(**capture, *local, *remote, true);
      Buffer data(5, std::byte{7});
      flow.sent(std::array{Bytes(data)}, 5);
      flow.received(std::array{MutableBytes(data)}, 5);
    }
    std::vector<std::string> seen;
    for (const Buffer& packet : packets(content())) seen.push_back(ends_of(packet));
    const std::string out = posix::to_string(*local) + " " + posix::to_string(*remote);
    const std::string in = posix::to_string(*remote) + " " + posix::to_string(*local);
    // The handshake, a segment each way, and our FIN.
    EXPECT_EQ(seen, (std::vector{out, in, out, out, in, out}));
    std::filesystem::remove(path_);  // else the next one goes on with it
  }
}

// Each client of a program has a provider of its own.
TEST_F(CaptureFile, IsSharedByProvidersAtOnceAndOneAfterTheOther) {
  const auto local = posix::parse_address("192.0.2.1:1025");
  std::uint16_t port = 1;
  const auto connect_with = [&](Capture& capture) {
    const auto remote = posix::parse_address("192.0.2.2:" + std::to_string(port++));
    CaptureFlow(capture, *local, *remote, true).finished();
  };
  {
    const auto first = Capture::open(path_, 1 << 20U), second = Capture::open(path_, 1 << 20U);
    ASSERT_TRUE(first && second);
    connect_with(**first);
    connect_with(**second);
    connect_with(**first);
  }
  connect_with(**Capture::open(path_, 1 << 20U));
  const std::uint64_t size = std::filesystem::file_size(path_);
  connect_with(**Capture::open(path_, size));  // its bound counts all of the file
  std::set<std::string> seen;
  for (const Buffer& packet : packets(content())) seen.insert(ends_of(packet));
  EXPECT_EQ(seen.size(), 2 * 4U) << "both directions of four connections";
  EXPECT_EQ(std::filesystem::file_size(path_), size);
}

// Returns the status of a child that does this and ends, as of waitpid().
int child_that(const std::function<void()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    act();
    std::exit(0);  // with all that this does at the end of a program
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(CaptureFile, IsLeftToItsProcessByAChild) {
  const auto local = posix::parse_address("192.0.2.1:1025");
  const auto remote = posix::parse_address("198.51.100.2:20049");
  {
    auto capture = Capture::open(path_, 1 << 20U).value();
    auto flow = std::make_optional<CaptureFlow>(*capture, *local, *remote, true);
    EXPECT_EQ(child_that([&] {
                flow.reset();
                capture.reset();
              }),
              0);
    EXPECT_EQ(child_that([] {}), 0);
    Buffer data(5, std::byte{7});
    flow->sent(std::array{Bytes(data)}, 5);
    flow.reset();
  }
  const auto found = packets(content());
  EXPECT_EQ(found.size(), 5U) << "the handshake, the data, and our FIN";
  EXPECT_EQ(std::set<Buffer>(found.begin(), found.end()).size(), 5U);
}

TEST_F(CaptureFile, GoesOnWithPacketsOfAChildThatOpensItAgain) {
  const auto packet = [](std::byte number) { return Buffer(60, number); };
  auto capture = Capture::open(path_, 1 << 20U).value();
  EXPECT_TRUE(capture->write(packet(std::byte{1})));
  EXPECT_EQ(child_that([&] {
              auto own = Capture::open(path_, 1 << 20U);
              if (!own || !(*own)->write(packet(std::byte{2}))) ::_exit(1);
              own->reset();
              if (capture->write(packet(std::byte{3}))) ::_exit(2);
            }),
            0);
  EXPECT_TRUE(capture->write(packet(std::byte{4})));
  capture.reset();
  EXPECT_EQ(packets(content()),
            (std::vector{packet(std::byte{1}), packet(std::byte{2}), packet(std::byte{4})}));
}

// A thread of the parent is in the middle of a packet, and never goes on in the child.
TEST_F(CaptureFile, HoldsUpNoChildThoughAThreadIsWriting) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const posix::Fd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto capture = Capture::open(path_, 1 << 30U).value();
  const int capacity = ::fcntl(reader.value(), F_GETPIPE_SZ);
  ASSERT_GT(capacity, 0);
  const Buffer packet(2 * static_cast<std::size_t>(capacity));
  std::atomic<bool> has_written = false;
  std::thread writer([&] {
    EXPECT_TRUE(capture->write(packet));
    has_written = true;
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int waiting = 0;
  while (waiting < capacity / 2 && std::chrono::steady_clock::now() < end) {
    ::ioctl(reader.value(), FIONREAD, &waiting);
  }
  EXPECT_GE(waiting, capacity / 2) << "a part of a packet that is longer than the pipe";
  EXPECT_EQ(child_that([&] {
              if (capture->write(packet)) ::_exit(1);
              capture.reset();
              ::_exit(0);
            }),
            0);
  Buffer read(packet.size());
  while (!has_written) (void)!::read(reader.value(), read.data(), read.size());
  writer.join();
}

// A set-up frame and FPDUs of these sizes; `begins`: where each begins.
Buffer stream_of(const std::vector<std::size_t>& ulpdu_sizes, SeededRandom& random,
                 std::set<std::size_t>& begins) {
  Buffer stream(iwarp::kMpaFrameMax);
  stream.resize(iwarp::encode(iwarp::make_request({}, std::as_bytes(std::span("private", 7))),
                              stream.data()));
  begins = {0};
  for (const std::size_t size : ulpdu_sizes) {
    const std::size_t at = stream.size();
    begins.insert(at);
    stream.resize(at + iwarp::fpdu_size(size));
    for (std::size_t i = at; i < stream.size(); ++i)
      stream[i] = static_cast<std::byte>(random.next());
    iwarp::store16(&stream[at], static_cast<std::uint16_t>(size));
  }
  return stream;
}

TEST(CaptureSegments, BeginWithAFrameHoweverTheBytesCame) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SeededRandom random(seed);
    std::vector<std::size_t> sizes;
    for (int i = 0; i < 30; ++i) sizes.push_back(14 + random.below(random.one_in(3) ? 65'522 : 90));
    sizes.push_back(65'535);
    std::set<std::size_t> begins;
    const Buffer stream = stream_of(sizes, random, begins);
    CaptureSegments segments;
    Buffer cut;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t most = random.one_in(2) ? 40 : 100'000;
      const std::size_t size = std::min(stream.size() - at, 1 + random.below(most));
      segments.add(Bytes(stream).subspan(at, size));
      at += size;
      for (Bytes next = segments.next(); !next.empty(); next = segments.next()) {
        // The second piece of a frame that is longer than a segment stands alone.
        const bool piece = !begins.contains(cut.size());
        cut.insert(cut.end(), next.begin(), next.end());
        ASSERT_LE(next.size(), 65'000U);
        ASSERT_TRUE(!piece || begins.contains(cut.size()) || cut.size() == stream.size()) << seed;
        ASSERT_LE(cut.size(), at);
      }
    }
    ASSERT_EQ(cut, stream) << seed;
    ASSERT_TRUE(segments.rest().empty());
  }
}

// tshark 4.0 loses an RPC message whose FPDU follows another one in the same segment.
TEST(CaptureSegments, HoldOneFrameEachWhenSeveralCameTogether) {
  SeededRandom random(1);
  std::set<std::size_t> begins;
  const Buffer stream = stream_of({100, 200, 14}, random, begins);
  CaptureSegments segments;
  segments.add(stream);
  std::set<std::size_t> cuts;
  std::size_t at = 0;
  for (Bytes next = segments.next(); !next.empty(); next = segments.next()) {
    cuts.insert(at);
    at += next.size();
  }
  EXPECT_EQ(cuts, begins);
  EXPECT_EQ(at, stream.size());
}

TEST(CaptureSegments, GiveWhatDidNotComeWholeAtTheEnd) {
  SeededRandom random(1);
  std::set<std::size_t> begins;
  const Buffer stream = stream_of({100, 65'535}, random, begins);
  CaptureSegments segments;
  segments.add(Bytes(stream).first(stream.size() - 1));
  std::size_t whole = 0;
  for (Bytes next = segments.next(); !next.empty(); next = segments.next()) whole += next.size();
  EXPECT_EQ(whole, *begins.rbegin());
  EXPECT_TRUE(segments.next().empty());
  std::size_t left = 0;
  for (Bytes rest = segments.rest(); !rest.empty(); rest = segments.rest()) left += rest.size();
  EXPECT_EQ(left, stream.size() - 1 - *begins.rbegin());
}

TEST(CaptureSegments, PassOnAtOnceWhatIsNotMpa) {
  CaptureSegments segments;
  segments.add(std::as_bytes(std::span("GET / HTTP/1.0", 14)));
  EXPECT_EQ(segments.next().size(), 14U);
  segments.add(std::as_bytes(std::span("M", 1)));  // which would begin a set-up frame
  EXPECT_EQ(segments.next().size(), 1U);
}

TEST_F(CaptureFile, SaysWhenItWasInNanosecondsSince1970) {
  const auto now = [] {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
  };
  const std::uint64_t before = now();
  {
    auto capture = Capture::open(path_, 1 << 20U);
    ASSERT_TRUE(capture);
    EXPECT_TRUE((*capture)->write(Buffer(60)));
  }
  const Buffer file = content();
  const std::size_t packet = 28 + 32;  // behind the section's and the interface's blocks
  const std::uint64_t time =
      std::uint64_t{native32(&file[packet + 12])} << 32U | native32(&file[packet + 16]);
  EXPECT_GE(time, before);
  EXPECT_LE(time, now());
}

TEST_F(CaptureFile, StopsAtItsBound) {
  {
    Options recording;
    recording.capture_file = path_;
    recording.capture_bytes_max = 10'000;
    Nodes nodes(recording);
    End client;
    End server;
    nodes.connect(client, server);
    for (int i = 0; i < 200; ++i) nodes.say(client, server);
  }
  const Buffer file = content();
  EXPECT_LE(file.size(), 10'000U);
  EXPECT_GT(file.size(), 9'000U);
  EXPECT_GT(packets(file).size(), 50U);
}

}  // namespace
}  // namespace rpcrdma::rdma::siwarp::test
