//! The publish cell.

use loom::{alloc::Track, cell::UnsafeCell, sync::Arc, thread};
use std::ptr;

use crate::{publish::Publish, sync};

/// A value whose reads the model checker orders and whose loss it reports.
struct Record {
    bytes: UnsafeCell<[u64; 4]>,
    _leak_check: Track<()>,
}

// SAFETY: written before it is published, only read afterwards; the model checks just that.
unsafe impl Sync for Record {}
// SAFETY: it owns everything in it.
unsafe impl Send for Record {}

impl Record {
    fn of(author: u64) -> Record {
        Record { bytes: UnsafeCell::new([author; 4]), _leak_check: Track::new(()) }
    }

    fn read(&self) -> [u64; 4] {
        // SAFETY: nobody writes after publication.
        self.bytes.with(|bytes| unsafe { *bytes })
    }
}

fn cell() -> Arc<Publish<Record>> {
    Arc::new(Publish::over(sync::AtomicPtr::new(ptr::null_mut())))
}

/// A071 A087 A089 A093: one winner, identical bytes for all, and neither the winner's nor a
/// loser's copy leaks.
#[test]
fn racing_first_calls_agree_and_losers_free_their_copy() {
    loom::model(|| {
        let cell = cell();
        let racers: Vec<_> = (1..=2)
            .map(|author| {
                let cell = Arc::clone(&cell);
                thread::spawn(move || cell.get_or_try(|| Ok::<_, ()>(Record::of(author))).map(Record::read))
            })
            .collect();
        let ours = cell.get_or_try(|| Ok::<_, ()>(Record::of(3))).map(Record::read).unwrap();
        assert!((1..=3).any(|author| ours == [author; 4]));
        for racer in racers {
            assert_eq!(racer.join().unwrap(), Ok(ours));
        }
        assert_eq!(cell.get().map(Record::read), Some(ours));
    });
}

/// A080: a failing query beside a succeeding one publishes nothing of its own.
#[test]
fn a_failed_query_beside_a_success_leaves_the_success() {
    loom::model(|| {
        let cell = cell();
        let other = Arc::clone(&cell);
        let failing = thread::spawn(move || other.get_or_try(|| Err::<Record, _>("no device")).map(Record::read));
        assert_eq!(cell.get_or_try(|| Ok::<_, ()>(Record::of(1))).map(Record::read), Ok([1; 4]));
        match failing.join().unwrap() {
            Ok(bytes) => assert_eq!(bytes, [1; 4]),
            Err(why) => assert_eq!(why, "no device"),
        }
        assert_eq!(cell.get().map(Record::read), Some([1; 4]));
    });
}

/// A reader that computes nothing sees no value or a whole one.
#[test]
fn a_reader_sees_nothing_or_everything() {
    loom::model(|| {
        let cell = cell();
        let writer = Arc::clone(&cell);
        let writing = thread::spawn(move || writer.publish(Record::of(7)).read());
        if let Some(record) = cell.get() {
            assert_eq!(record.read(), [7; 4]);
        }
        assert_eq!(writing.join().unwrap(), [7; 4]);
    });
}
