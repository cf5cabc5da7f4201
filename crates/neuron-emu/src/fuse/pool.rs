//! Threads that serve requests.
//!
//! Every thread reads from the device and handles what it got. Before it does, it makes sure that
//! another one is left to read: a call that blocks therefore never delays the next request. The
//! pool shrinks again when calls return.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{BUFFER, Connection, Request};

/// Threads for calls that may block, unless somebody asks for another number. When all of them
/// are blocked, further calls of that kind are refused; interrupts and closes still get through.
pub const MAX_THREADS: usize = 1024;

/// Readers kept for the next burst.
const SPARE: usize = 8;

/// Handles requests.
pub trait Handler: Send + Sync + 'static {
    /// Handles one request and answers it. May block.
    fn handle(&self, connection: &Connection, request: &Request<'_>);

    /// There are threads enough: refuses a request that might block and may be refused. False
    /// when it has to be handled all the same.
    fn refuse(&self, connection: &Connection, request: &Request<'_>) -> bool;
}

struct Pool<H> {
    limit: usize,
    connection: Arc<Connection>,
    handler: Arc<H>,
    threads: AtomicUsize,
    readers: AtomicUsize,
}

/// Starts serving with at most `limit` threads, apart from those that closes need.
///
/// # Errors
/// When not even the first thread can be started.
pub fn start<H: Handler>(connection: Arc<Connection>, handler: Arc<H>, limit: usize) -> std::io::Result<()> {
    let pool = Pool { limit, connection, handler, threads: AtomicUsize::new(0), readers: AtomicUsize::new(0) };
    spawn(&Arc::new(pool))
}

fn spawn<H: Handler>(pool: &Arc<Pool<H>>) -> std::io::Result<()> {
    pool.threads.fetch_add(1, Ordering::Relaxed);
    pool.readers.fetch_add(1, Ordering::Relaxed);
    let shared = pool.clone();
    let started = std::thread::Builder::new().name("neuron-emu".into()).spawn(move || {
        serve(&shared);
        shared.threads.fetch_sub(1, Ordering::AcqRel);
    });
    if started.is_err() {
        pool.threads.fetch_sub(1, Ordering::Relaxed);
        pool.readers.fetch_sub(1, Ordering::Relaxed);
    }
    started.map(drop)
}

fn serve<H: Handler>(pool: &Arc<Pool<H>>) {
    let mut buffer = vec![0; BUFFER];
    // An error of the device has no one to be told to; the mount is as good as gone.
    while let Ok(Some(request)) = pool.connection.receive(&mut buffer) {
        let last = pool.readers.fetch_sub(1, Ordering::AcqRel) == 1;
        let enough = pool.threads.load(Ordering::Relaxed) >= pool.limit;
        if !(last && enough && pool.handler.refuse(&pool.connection, &request)) {
            if last {
                // Without another thread the next request waits for this one.
                let _ = spawn(pool);
            }
            pool.handler.handle(&pool.connection, &request);
        }
        if pool.readers.fetch_add(1, Ordering::AcqRel) >= SPARE {
            break;
        }
    }
    pool.readers.fetch_sub(1, Ordering::AcqRel);
}
