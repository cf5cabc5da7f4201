//! Many threads on the same tensors.

use super::*;
use std::thread;

const SIZE: usize = 3000;
const ROUNDS: usize = 300;

fn uniform(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == bytes[0])
}

#[test]
fn no_read_sees_half_a_write_through_any_view() {
    for placement in [DEVICE, HOST, VIRTUAL] {
        let store = trn1();
        let tensor = made(&store, placement, 0, SIZE);
        let slice = resolve("test", allocate_slice(&tensor, 0, SIZE, None).unwrap()).unwrap();
        thread::scope(|scope| {
            for writer in 0..2u8 {
                let tensor = &tensor;
                scope.spawn(move || {
                    for n in 0..ROUNDS {
                        match n % 2 {
                            0 => tensor.write(0, &[n as u8 ^ writer; SIZE]).unwrap(),
                            _ => tensor.memset(0, n as i32, SIZE).unwrap(),
                        }
                    }
                });
            }
            for reader in [&tensor, &slice] {
                scope.spawn(move || (0..ROUNDS).for_each(|_| assert!(uniform(&bytes(reader)))));
            }
        });
    }
}

#[test]
fn copies_in_both_directions_neither_tear_nor_lock_up() {
    let store = trn1();
    let tensors = [0, 1, 2].map(|_| made(&store, DEVICE, 0, SIZE));
    for (n, tensor) in tensors.iter().enumerate() {
        tensor.memset(0, n as i32 + 1, SIZE).unwrap();
    }
    thread::scope(|scope| {
        for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 0), (0, 2), (2, 1)] {
            let tensors = &tensors;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    copy(&tensors[from], 0, &tensors[to], 0, SIZE).unwrap();
                    assert!(uniform(&bytes(&tensors[to])));
                }
            });
        }
    });
}

#[test]
fn misuse_by_threads_ends_in_statuses() {
    let store = trn1();
    let handles: Vec<usize> = (0..8).map(|_| store.allocate(DEVICE, 0, SIZE, None).unwrap()).collect();
    // Keeps the addresses from being given out again: a second free would hit another test.
    let kept: Vec<_> = handles.iter().map(|&handle| resolve("test", handle).unwrap()).collect();
    thread::scope(|scope| {
        for seed in 0..4usize {
            let (store, handles) = (&store, &handles);
            scope.spawn(move || {
                for n in 0..ROUNDS {
                    let handle = handles[(n * 7 + seed) % handles.len()];
                    let Ok(tensor) = resolve("test", handle) else { continue };
                    let answer = match (n + seed) % 6 {
                        0 => tensor.write_batch([(1, &[1u8; 99][..])], Wait::Skip),
                        1 => tensor.read_batch([(0, &mut [0; 2000][..])], Wait::Skip),
                        2 => {
                            tensor.attach(Box::new(Buffer::new(100)));
                            Ok(())
                        }
                        3 => copy(&tensor, 0, &tensor, 5, 90),
                        4 => allocate_slice(&tensor, 0, 50, None).and_then(free),
                        _ if n > ROUNDS / 2 => free(handle),
                        _ => tensor.device_allocation().map(|_| ()),
                    };
                    // Too short after an attach, no longer on the device, freed twice.
                    assert!(matches!(answer, Ok(()) | Err(Status::Invalid | Status::InvalidHandle)), "{answer:?}");
                    assert_eq!(store.allocate(DEVICE, 1, 100, None).and_then(free), Ok(()));
                }
            });
        }
    });
    for handle in handles {
        let _ = free(handle);
    }
    drop(kept);
    assert_eq!([0, 1].map(|vnc| store.memory_stats(vnc).unwrap().bytes_used), [0, 0]);
}
