#include "tuner/store/StoreLease.h"

#include "tuner/record/BootId.h"

#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/split.hpp>
#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace kfuse::tuner {
namespace {

std::string firstLine(const std::string &path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

/// When process `pid` began, in clock ticks since boot: a number that is given again to another process begins later.
/// Field 22 of proc(5); the second one may hold blanks, and ends with the last parenthesis.
std::string startOf(const std::string &pid) {
  std::string line = firstLine("/proc/" + pid + "/stat");
  std::size_t name = line.rfind(')');
  if (name == std::string::npos)
    return "";
  std::vector<std::string> fields;
  std::string rest = line.substr(name + 1); // " S 1 ...": field 3 is the second piece.
  boost::split(fields, rest, boost::is_space());
  return fields.size() > 20 ? fields[20] : "";
}

/// Inside one boot and namespace, process numbers mean the same to all.
std::string world() {
  struct stat processes{};
  bool known = stat("/proc/self/ns/pid", &processes) == 0;
  return fmt::format("{}/{}", bootId(), known ? processes.st_ino : 0);
}

std::string makeOwner() {
  static std::atomic<int> number = 0; // Two stores of one process are two owners.
  std::string pid = std::to_string(getpid());
  return fmt::format("{}/{}/{}/{}", world(), pid, startOf(pid), number++);
}

/// True when the owner was a process of this world that is no more.
bool isGone(const std::string &owner, const std::string &self) {
  std::vector<std::string> theirs, ours;
  boost::split(theirs, owner, boost::is_any_of("/"));
  boost::split(ours, self, boost::is_any_of("/"));
  if (theirs.size() != ours.size() || theirs[0] != ours[0] || theirs[1] != ours[1])
    return false;
  if (kill(static_cast<pid_t>(std::strtol(theirs[2].c_str(), nullptr, 10)), 0) != 0 && errno == ESRCH)
    return true;
  std::string start = startOf(theirs[2]); // "" where a foreign process is hidden: then its heart tells.
  return !start.empty() && start != theirs[3];
}

} // namespace

LeaseBook::LeaseBook(StoreFile &file, Pace pace) : file(file), pace(pace), self(makeOwner()) {}

LeaseBook::~LeaseBook() {
  if (heart.joinable()) {
    heart.request_stop();
    heart.join();
  }
  for (const std::string &region : std::set(held))
    release(region);
}

bool LeaseBook::isFree(SQLite::Database &db, const std::string &region) {
  SQLite::Statement row(db, "SELECT owner, beat FROM leases WHERE region = ?");
  row.bind(1, region);
  return !row.executeStep() || row.getColumn(0).getString() == self ||
         isDead(region, row.getColumn(0).getString(), row.getColumn(1).getInt64());
}

bool LeaseBook::claim(const std::string &region) {
  // Those who wait ask often: reading keeps them out of the writers' way.
  std::optional<bool> free = file.read([&](SQLite::Database &db) { return std::optional(isFree(db, region)); });
  if (free == false)
    return false;
  bool isOurs = true;
  bool written = file.write([&](SQLite::Database &db) {
    isOurs = isFree(db, region);
    if (!isOurs)
      return;
    SQLite::Statement take(db, "INSERT OR REPLACE INTO leases VALUES(?, ?, 0)");
    take.bind(1, region);
    take.bind(2, self);
    take.exec();
  });
  if (!isOurs || !written)
    return isOurs;
  std::scoped_lock lock(mutex);
  held.insert(region);
  if (!heart.joinable())
    heart = std::jthread([this](const std::stop_token &stop) { keepBeating(stop); });
  return true;
}

void LeaseBook::release(const std::string &region) {
  {
    std::scoped_lock lock(mutex);
    if (held.erase(region) == 0)
      return;
  }
  file.write([&](SQLite::Database &db) {
    SQLite::Statement drop(db, "DELETE FROM leases WHERE region = ? AND owner = ?");
    drop.bind(1, region);
    drop.bind(2, self);
    drop.exec();
  });
}

bool LeaseBook::isDead(const std::string &region, const std::string &owner, std::int64_t beat) {
  if (isGone(owner, self))
    return true;
  auto now = std::chrono::steady_clock::now();
  std::scoped_lock lock(mutex);
  Sighting &seen = sightings[region];
  if (seen.owner != owner || seen.beat != beat)
    seen = {owner, beat, now};
  return now - seen.since > pace.expiry;
}

void LeaseBook::keepBeating(const std::stop_token &stop) {
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, stop, pace.beat, [&] { return stop.stop_requested(); }) && !stop.stop_requested()) {
    if (held.empty())
      continue;
    lock.unlock(); // The store's own lock is never waited for under this one.
    file.write([&](SQLite::Database &db) {
      SQLite::Statement beat(db, "UPDATE leases SET beat = beat + 1 WHERE owner = ?");
      beat.bind(1, self);
      beat.exec();
    });
    lock.lock();
  }
}

int countLeases(SQLite::Database &db) {
  const std::string self = makeOwner();
  int count = 0;
  SQLite::Statement rows(db, "SELECT owner FROM leases");
  while (rows.executeStep())
    count += isGone(rows.getColumn(0).getString(), self) ? 0 : 1;
  return count;
}

} // namespace kfuse::tuner
