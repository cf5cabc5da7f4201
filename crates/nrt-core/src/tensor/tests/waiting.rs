//! Waiting for outputs, in virtual time.

use super::*;
use crate::tensor::completion::{Bell, Clock, SystemClock, wait_for};
use std::{cell::RefCell, time::Duration};

/// Time that passes only by waiting. At each moment of `completions` the tensor is completed.
struct Virtual<'a> {
    tensor: &'a Tensor,
    now: RefCell<Duration>,
    completions: RefCell<Vec<Duration>>,
    waits: RefCell<Vec<Duration>>,
}

impl<'a> Virtual<'a> {
    fn new(tensor: &'a Tensor, completions: &[u64]) -> Virtual<'a> {
        Virtual {
            tensor,
            now: RefCell::default(),
            completions: RefCell::new(completions.iter().rev().map(|&s| Duration::from_secs(s)).collect()),
            waits: RefCell::default(),
        }
    }
}

impl Clock for Virtual<'_> {
    fn now(&self) -> Duration {
        *self.now.borrow()
    }

    fn wait(&self, bell: &Bell, round: u64, limit: Duration) {
        if bell.round() != round {
            return; // another test rang
        }
        let end = self.now() + limit;
        let next = self.completions.borrow_mut().pop_if(|at| *at <= end);
        self.waits.borrow_mut().push(next.unwrap_or(end) - self.now());
        self.now.replace(next.unwrap_or(end));
        if next.is_some() {
            self.tensor.complete_output();
        }
    }
}

fn tensor() -> TensorRef {
    resolve("test", allocate_empty(Some(c"out")).unwrap()).unwrap()
}

fn seconds(waits: &RefCell<Vec<Duration>>) -> Vec<f64> {
    waits.borrow().iter().map(Duration::as_secs_f64).collect()
}

#[test]
fn a_count_already_reached_is_no_wait() {
    let tensor = tensor();
    for timeout in [0, 1, -1, i64::MIN, i64::MAX] {
        let clock = Virtual::new(&tensor, &[]);
        assert_eq!(wait_for(&tensor, timeout, 0, &clock), Ok(()));
        assert!(clock.waits.borrow().is_empty());
    }
}

#[test]
fn the_timeout_is_in_microseconds() {
    let tensor = tensor();
    for (timeout, waits) in [(0, vec![]), (5, vec![5e-6]), (70_000_000, vec![30.0, 30.0, 10.0])] {
        let clock = Virtual::new(&tensor, &[]);
        assert_eq!(wait_for(&tensor, timeout, 1, &clock), Err(Status::Timeout));
        assert_eq!(seconds(&clock.waits), waits);
    }
}

#[test]
fn a_negative_or_endless_timeout_waits_and_looks_up_every_thirty_seconds() {
    for timeout in [-1, i64::MIN, i64::MAX] {
        let tensor = tensor();
        let clock = Virtual::new(&tensor, &[31, 95]);
        assert_eq!(wait_for(&tensor, timeout, 2, &clock), Ok(()));
        assert_eq!(seconds(&clock.waits), [30.0, 1.0, 29.0, 30.0, 5.0]);
    }
}

#[test]
fn a_completion_at_the_last_moment_counts_and_reset_starts_over() {
    let tensor = tensor();
    assert_eq!(wait_for(&tensor, 10_000_000, 1, &Virtual::new(&tensor, &[10])), Ok(()));
    assert_eq!(tensor.output_completions(), 1);
    assert_eq!(check_output_completion(tensor.handle(), 0, 2), Err(Status::Timeout));
    reset_output_completion(tensor.handle()).unwrap();
    assert_eq!(check_output_completion(tensor.handle(), 0, 1), Err(Status::Timeout));
    assert_eq!(check_output_completion(tensor.handle(), 0, 0), Ok(()));
}

#[test]
fn waiters_on_other_threads_are_woken() {
    let tensor = tensor();
    std::thread::scope(|scope| {
        for expected in 1..=4 {
            let tensor = &tensor;
            scope.spawn(move || assert_eq!(wait_for(tensor, -1, expected, &SystemClock), Ok(())));
        }
        (0..4).for_each(|_| tensor.complete_output());
    });
}
