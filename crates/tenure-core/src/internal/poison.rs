//! Mutexes that stay usable after a panic elsewhere.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even after a holder panicked.
///
/// Every mutex of these crates is held for a few steps that call no foreign code and do not fail
/// half-way, so its value is whole. Refusing it instead would turn one panicking task into locks
/// that no task can release any more.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutex_is_usable_after_a_panic_of_its_holder() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let mut number = lock(&mutex);
                *number = 2;
                panic!("while holding");
            });
            holder.join().is_err()
        });
        assert!(panicked && mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
    }
}
