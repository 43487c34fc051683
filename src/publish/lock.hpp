// Lock: holds a mutex until its scope ends. (std::mutex reports errors by exceptions.)
#pragma once

#include <pthread.h>

namespace vitrine::publish {

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) noexcept : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace vitrine::publish
