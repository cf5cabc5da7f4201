//! How long bytes live.

use super::*;
use std::sync::Weak;

#[test]
fn a_slice_of_a_slice_keeps_the_storage_of_freed_parents() {
    let store = trn1();
    let parent = store.allocate(DEVICE, 0, 4096, None).unwrap();
    let middle = allocate_slice(&resolve("test", parent).unwrap(), 1000, 100, None).unwrap();
    let last = allocate_slice(&resolve("test", middle).unwrap(), 10, 5, None).unwrap();
    resolve("test", parent).unwrap().write(1010, b"hello").unwrap();
    free(parent).unwrap();
    free(middle).unwrap();
    assert_eq!(bytes(&resolve("test", last).unwrap()), b"hello");
    assert_eq!(store.memory_stats(0).unwrap().bytes_used, 4096);
    free(last).unwrap();
    assert_eq!(store.memory_stats(0).unwrap().bytes_used, 0);
}

#[test]
fn a_call_in_flight_outlives_a_free() {
    let store = trn1();
    let tensor = made(&store, DEVICE, 0, 16);
    free(tensor.handle()).unwrap();
    tensor.write(0, &[1; 16]).unwrap();
    assert_eq!((bytes(&tensor), store.memory_stats(0).unwrap().bytes_used), (vec![1; 16], 4096));
    drop(tensor);
    assert_eq!(store.memory_stats(0).unwrap().bytes_used, 0);
}

// B12: tensors outlive the runtime; freeing them then is safe and really frees.
#[test]
fn tensors_outlive_the_store_and_leave_the_next_one_alone() {
    let store = trn1();
    let gone: Weak<memory::Memory> = Arc::downgrade(&store.memory);
    let handle = store.allocate(DEVICE, 0, 20 * MIB, Some(c"old")).unwrap();
    drop(store);

    let next = trn1();
    assert_eq!(resolve("test", handle).unwrap().size(), 20 * MIB);
    assert_eq!(next.memory_stats(0).unwrap().bytes_used, 0);
    let new = made(&next, DEVICE, 0, 20 * MIB);
    new.memset(0, 1, MIB).unwrap();
    resolve("test", handle).unwrap().memset(0, 2, 20 * MIB).unwrap();
    free(handle).unwrap();
    assert!(gone.upgrade().is_none(), "the memory of the old cycle is gone");
    assert_eq!(next.memory_stats(0).unwrap().bytes_used, 20 * MIB);
    assert_eq!(bytes(&new)[..MIB], vec![1; MIB]);
}
