//! Transfers: a read, write or copy that is checked by the call that asks for it and carried out
//! later, perhaps by another thread (`facts/runtime/tensors.md` section 8).

use std::sync::Arc;

use super::{Access, Hold, Route, Storage, Tensor};
use crate::Result;

/// Bytes of a caller that a transfer reads. They stay valid until the transfer is gone.
pub trait Source: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

/// Room of a caller that a transfer fills. It stays valid until the transfer is gone.
pub trait Target: Send {
    /// The room.
    fn bytes(&mut self) -> &mut [u8];
}

/// An operation whose ranges lie inside its tensors. From its making to its end it counts as a user
/// of their bytes, which calls that wait for work in flight wait for; it waits for nobody itself.
/// The bytes live as long as it does, whatever happens to the tensors meanwhile.
#[must_use]
pub struct Transfer {
    work: Work,
    _held: [Option<Hold>; 2],
}

enum Work {
    Read { from: Arc<Storage>, start: usize, to: Box<dyn Target> },
    Write { to: Arc<Storage>, start: usize, from: Box<dyn Source> },
    Copy(Route),
}

impl Transfer {
    /// All of `to` from the bytes of `tensor` at `offset` on. NRT_INVALID when they are not inside.
    pub fn read(api: &'static str, tensor: &Tensor, offset: usize, mut to: Box<dyn Target>) -> Result<Transfer> {
        let (from, start) = tensor.range(api, "read", offset, to.bytes().len())?;
        let held = [Some(Hold::pending(&from, Access::Read)), None];
        Ok(Transfer { work: Work::Read { from, start, to }, _held: held })
    }

    /// All of `from` to the bytes of `tensor` at `offset` on. NRT_INVALID when it does not fit.
    pub fn write(api: &'static str, tensor: &Tensor, offset: usize, from: Box<dyn Source>) -> Result<Transfer> {
        let (to, start) = tensor.range(api, "write", offset, from.bytes().len())?;
        let held = [Some(Hold::pending(&to, Access::Write)), None];
        Ok(Transfer { work: Work::Write { to, start, from }, _held: held })
    }

    /// `size` bytes between two tensors, by the rules of [`copy`](super::copy).
    pub fn copy(api: &'static str, from: (&Tensor, usize), to: (&Tensor, usize), size: usize) -> Result<Transfer> {
        let route = Route::new(api, from, to, size)?;
        let held = [Some(Hold::pending(&route.from, Access::Read)), Some(Hold::pending(&route.to, Access::Write))];
        Ok(Transfer { work: Work::Copy(route), _held: held })
    }

    /// Carry it out. Errors are those of the memory.
    pub fn run(mut self) -> Result<()> {
        match &mut self.work {
            Work::Read { from, start, to } => from.bytes().read_at(*start, to.bytes()),
            Work::Write { to, start, from } => to.bytes().write_at(*start, from.bytes()),
            Work::Copy(route) => route.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Status,
        tensor::{TensorRef, allocate_empty, free, memory::fake::HostBytes, resolve},
    };
    use std::sync::{Mutex, mpsc};

    struct Data(Vec<u8>);

    impl Source for Data {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
    }

    /// Hands its bytes over when it is gone.
    struct Room(Vec<u8>, mpsc::Sender<Vec<u8>>);

    impl Target for Room {
        fn bytes(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    impl Drop for Room {
        fn drop(&mut self) {
            let _ = self.1.send(std::mem::take(&mut self.0));
        }
    }

    fn tensor(size: usize) -> TensorRef {
        let tensor = resolve("test", allocate_empty(None).unwrap()).unwrap();
        tensor.attach(Box::new(HostBytes::new(size).unwrap()));
        tensor
    }

    #[test]
    fn a_range_outside_its_tensor_is_refused_when_the_transfer_is_made() {
        let (small, large, empty) = (tensor(8), tensor(16), resolve("test", allocate_empty(None).unwrap()).unwrap());
        let data = || Box::new(Data(vec![0; 9]));
        let room = || Box::new(Room(vec![0; 9], mpsc::channel().0));
        let answers = [
            Transfer::write("test", &small, 0, data()).err(),
            Transfer::write("test", &large, 8, data()).err(),
            Transfer::write("test", &large, usize::MAX, data()).err(),
            Transfer::write("test", &empty, 0, data()).err(),
            Transfer::read("test", &small, 0, room()).err(),
            Transfer::copy("test", (&large, 0), (&small, 0), 9).err(),
            Transfer::copy("test", (&small, 8), (&large, 0), 1).err(),
        ];
        assert_eq!(answers, [Some(Status::Invalid); 7]);
        small.write(0, &[1; 8]).expect("a refused transfer is not in flight");
    }

    #[test]
    fn a_transfer_works_on_another_thread_after_its_tensors_are_freed() {
        let (from, to) = (tensor(16), tensor(16));
        let (sender, bytes) = mpsc::channel();
        let transfers = [
            Transfer::write("test", &from, 4, Box::new(Data(vec![1, 2, 3]))).unwrap(),
            Transfer::copy("test", (&from, 4), (&to, 9), 3).unwrap(),
            Transfer::read("test", &to, 8, Box::new(Room(vec![9; 5], sender))).unwrap(),
        ];
        for tensor in [from, to] {
            free(tensor.handle()).unwrap();
        }
        let answers = std::thread::spawn(|| transfers.map(Transfer::run)).join().unwrap();
        assert_eq!(answers, [Ok(()); 3]);
        assert_eq!(bytes.recv().unwrap(), [0, 1, 2, 3, 0]);
    }

    #[test]
    fn a_call_waits_for_the_transfers_made_before_it() {
        let tensor = tensor(4);
        let write = Transfer::write("test", &tensor, 0, Box::new(Data(vec![7; 4]))).unwrap();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut out = [0; 4];
                tensor.read(0, &mut out).unwrap();
                order.lock().unwrap().push("read");
                out
            });
            // Whether or not the reader waits already, it cannot pass.
            order.lock().unwrap().push("write");
            write.run().unwrap();
            assert_eq!(reader.join().unwrap(), [7; 4]);
        });
        assert_eq!(order.into_inner().unwrap(), ["write", "read"]);
    }
}
