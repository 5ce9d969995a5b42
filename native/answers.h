// The bytes that answer one exchange. Received in place, and handed to JavaScript without a copy when there are many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace netsweep {

/** A growing piece of memory. Unlike a vector it leaves what it has not been given unwritten. */
class Answers {
 public:
  /** Fewer bytes than this are cheaper to copy than to hand over. */
  static constexpr size_t kCopied = 64 * 1024;

  Answers() = default;
  Answers(Answers&& other) noexcept { swap(other); }
  Answers& operator=(Answers&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Answers() { std::free(data_); }

  uint8_t* data() { return data_; }
  size_t size() const { return size_; }

  /** Room for `count` bytes behind those that are kept. */
  uint8_t* room(size_t count) {
    if (capacity_ - size_ < count && !resize(size_ + (size_ > count ? size_ : count))) throw std::bad_alloc();
    return data_ + size_;
  }
  /** Keeps `count` bytes of the room. */
  void keep(size_t count) { size_ += count; }

  /** Gives the room back. */
  void trim() {
    if (size_ > 0) resize(size_);
  }
  void clear() { size_ = 0; }

  /** The same bytes in memory of their size. */
  Answers copy() const {
    Answers copied;
    if (size_ > 0) std::memcpy(copied.room(size_), data_, size_);
    copied.keep(size_);
    return copied;
  }

  /** The memory, for std::free. */
  uint8_t* release() {
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  bool resize(size_t capacity) {
    void* data = std::realloc(data_, capacity);
    if (data == nullptr) return false;
    data_ = static_cast<uint8_t*>(data);
    capacity_ = capacity;
    return true;
  }
  void swap(Answers& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace netsweep
