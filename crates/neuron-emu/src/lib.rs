//! Publishes an emulated Neuron instance for unmodified processes, and replays transcripts.
//!
//! ```text
//!  cli.rs ──► replay.rs                                 transcripts against the driver model
//!    │
//!    ├──► run.rs, serve.rs                              a program on an instance; an instance for all
//!    │      ├─► machine.rs, faults.rs                   driver model on the devices of a product
//!    │      ├─► namespace.rs                            private /dev and /sys of `run`
//!    │      ├─► keeper.rs, signals.rs                   the helper that cleans up after a kill
//!    │      └─► publish.rs                              a machine behind a mount
//!    │            ├─► fuse/                             protocol, mount, threads that serve
//!    │            ├─► server.rs, tree.rs                requests to names, files, calls of the driver
//!    │            ├─► client.rs                         the calling process: memory, group, signals
//!    │            ├─► waiting.rs                        calls in flight and what ends them
//!    │            ├─► mapped.rs                         files that are closed but still mapped
//!    │            ▼
//!    ├──► vfio/                                         the devices alone, for virtual machines
//!    └──► control.rs                                    JSON lines over a socket, and its client
//! ```
//!
//! # How a call gets to the driver
//!
//! A client's `ioctl` arrives as one request with the number and the argument word. Its memory is
//! read and written in place ([`client::Memory`]), so one method serves every encoding and the
//! answer carries no bytes. Each request runs in a thread of a pool that grows while calls block
//! ([`fuse::pool`]), and an interrupt of the kernel becomes a pending signal of the model.
//!
//! # What the mechanism cannot do
//!
//! * The nodes are regular files: `S_ISCHR` is false, `epoll` accepts them, `lseek` succeeds.
//! * The kernel copies the argument of commands that are declared to read it before it asks:
//!   a bad pointer there is `EFAULT` instead of the driver's count of bytes.
//! * `mmap` never asks: with shared mappings any offset and length of the device's memory can be
//!   mapped, and pages that the driver would make read-only for a process are writable.
//!   Register windows mapped that way do not trap.
//! * No descriptor can be put into another process: commands that make one fail.
//!
//! # Rights
//!
//! Shared mappings need Linux 6.9 and `CAP_SYS_ADMIN` outside of user namespaces. Clients of
//! another user than the server need `CAP_SYS_PTRACE` in the server.

pub mod client;
pub mod control;
pub mod faults;
pub mod fuse;
pub mod keeper;
pub mod machine;
pub mod mapped;
pub mod namespace;
pub mod publish;
pub mod replay;
pub mod run;
pub mod serve;
pub mod server;
pub mod signals;
pub mod tree;
pub mod vfio;
pub mod waiting;
