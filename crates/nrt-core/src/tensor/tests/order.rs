//! Who waits for whom.

use super::*;

// Reads wait for writes in flight, everything else for everybody, batches marked unsafe for nobody.
#[test]
fn who_waits_for_whom() {
    type Call = fn(&Tensor) -> Result<()>;
    let calls: [(Call, [bool; 2]); 9] = [
        // waits for a read in flight, for a write in flight
        (|t| t.read(0, &mut [0; 2]), [false, true]),
        (|t| t.write(0, &[1; 2]), [true, true]),
        (|t| t.memset(0, 1, 2), [true, true]),
        (|t| t.read_batch([(0, &mut [0; 2][..])], Wait::InFlight), [false, true]),
        (|t| t.write_batch([(0, &[1; 2][..])], Wait::InFlight), [true, true]),
        (|t| t.read_batch([(0, &mut [0; 2][..])], Wait::Skip), [false, false]),
        (|t| t.write_batch([(0, &[1; 2][..])], Wait::Skip), [false, false]),
        (|t| copy(t, 0, &made(&trn1(), VIRTUAL, -1, 4), 0, 2), [false, true]),
        (|t| copy(&made(&trn1(), VIRTUAL, -1, 4), 0, t, 0, 2), [true, true]),
    ];
    let tensor = made(&trn1(), DEVICE, 0, 4);
    let slice = resolve("test", allocate_slice(&tensor, 1, 3, None).unwrap()).unwrap();
    for (n, (call, waits)) in calls.into_iter().enumerate() {
        for (access, waits) in [Access::Read, Access::Write].into_iter().zip(waits) {
            // Through another view: the bytes count, not the tensor.
            let in_flight = Hold::pending(&slice.storage().unwrap(), access);
            if !waits {
                // Would never come back.
                assert_eq!(call(&tensor), Ok(()), "call {n} with a {access:?} in flight");
                continue;
            }
            let order = parking_lot::Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    assert_eq!(call(&tensor), Ok(()));
                    order.lock().push("call");
                });
                // Whether or not the call waits already, it cannot pass.
                std::thread::yield_now();
                order.lock().push("in flight");
                drop(in_flight);
            });
            assert_eq!(*order.lock(), ["in flight", "call"], "call {n} with a {access:?} in flight");
        }
    }
}

// An attach while another thread's call is in flight neither waits for it nor pulls its bytes away.
#[test]
fn an_attach_does_not_wait_for_calls_in_flight() {
    let store = trn1();
    let tensor = made(&store, DEVICE, 0, 4);
    let in_flight = Hold::pending(&tensor.storage().unwrap(), Access::Write);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| tensor.read(0, &mut [0; 4]));
        tensor.attach(Box::new(Buffer::new(8)));
        assert_eq!(store.memory_stats(0).unwrap().bytes_used, 4096, "what is in flight keeps the old bytes");
        drop(in_flight);
        assert_eq!(reader.join().unwrap(), Ok(()));
    });
    assert_eq!((tensor.size(), store.memory_stats(0).unwrap().bytes_used), (8, 0));
}
