//! The lock-free files of the library under the interleavings and the reorderings that the memory
//! model allows: the very files, over the primitives of the model checker.

#[path = "../../src/handle/word.rs"]
mod word;

#[path = "../../src/instance/publish.rs"]
mod publish;

#[path = "../../src/tensor/gate.rs"]
mod gate;

mod cell;
mod sync;
mod turns;
mod users;

use nrt_core::tensor::Access;

/// Every schedule with so many switches away from a thread that could go on.
fn with_switches(most: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(most);
    model.check(body);
}
