#include "files/job_queue.h"

#include <algorithm>
#include <utility>

namespace files {

void JobQueue::settle(Line& line) {
  ready_ -= line.ready;
  line.ready = std::min(line.jobs.size(), running_max_ - line.running);
  ready_ += line.ready;
  if (line.ready == 0 || line.has_turn) return;
  line.has_turn = true;
  turns_.push_back(&line);
}

void JobQueue::forget_if_idle(std::uint64_t host) {
  const auto line = lines_.find(host);
  if (line->second.jobs.empty() && line->second.running == 0) lines_.erase(line);
}

std::optional<JobQueue::Clock::time_point> JobQueue::waits_since(
    std::uint64_t host) const noexcept {
  const auto found = lines_.find(host);
  if (found == lines_.end()) return std::nullopt;
  const Line& line = found->second;
  if (line.running + line.jobs.size() < running_max_) return std::nullopt;
  return line.last_step;
}

std::optional<JobQueue::Clock::time_point> JobQueue::runs_since(std::uint64_t host) const noexcept {
  const auto found = lines_.find(host);
  if (found == lines_.end() || found->second.running < running_max_) return std::nullopt;
  return found->second.last_step;
}

void JobQueue::add(std::unique_ptr<Job> job, std::uint64_t host, Clock::time_point now) {
  Line& line = lines_[host];
  line.host = host;
  if (line.jobs.empty() && line.running == 0) line.last_step = now;
  line.jobs.push_back({std::move(job), now});
  ++size_;
  settle(line);
}

JobQueue::Taken JobQueue::take(Clock::time_point now) {
  Line& line = *turns_.front();
  turns_.pop_front();
  line.has_turn = false;
  Taken taken{std::move(line.jobs.front().job), line.host};
  line.jobs.pop_front();
  --size_;
  ++line.running;
  line.last_step = now;
  settle(line);
  return taken;
}

void JobQueue::end(std::uint64_t host, Clock::time_point now) {
  Line& line = lines_.at(host);
  --line.running;
  line.last_step = now;
  settle(line);
  forget_if_idle(host);
}

// It looks at all hosts, and is called only while the queue is full.
std::unique_ptr<Job> JobQueue::take_from_above(std::uint64_t host) {
  const auto jobs_of = [](const auto& entry) { return entry.second.jobs.size(); };
  const auto most = std::ranges::max_element(lines_, {}, jobs_of);
  const auto own = lines_.find(host);
  const std::size_t own_count = own != lines_.end() ? jobs_of(*own) : 0;
  if (most == lines_.end() || jobs_of(*most) < own_count + 2) return nullptr;
  Line& line = most->second;
  std::unique_ptr<Job> job = std::move(line.jobs.back().job);
  line.jobs.pop_back();  // others are left: it had two
  --size_;
  settle(line);
  return job;
}

std::vector<std::unique_ptr<Job>> JobQueue::take_late(Clock::time_point time, From hosts) {
  std::vector<std::unique_ptr<Job>> late;
  for (auto& [host, line] : lines_) {
    const bool goes_on = line.running < running_max_ || line.last_step >= time;
    if (hosts == From::kThoseThatHang && goes_on) continue;
    for (; !line.jobs.empty() && line.jobs.front().since < time; line.jobs.pop_front()) {
      late.push_back(std::move(line.jobs.front().job));
    }
    settle(line);
  }
  size_ -= late.size();
  std::erase_if(turns_, [](Line* line) {
    if (line->ready > 0) return false;
    line->has_turn = false;
    return true;
  });
  std::erase_if(lines_, [](const auto& entry) {
    return entry.second.jobs.empty() && entry.second.running == 0;
  });
  return late;
}

}  // namespace files
