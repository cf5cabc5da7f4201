//! The process behind a request: its memory, its thread group, its pending signals.
//!
//! The kernel names the calling *thread*, in the process id namespace of the mount. The thread
//! sleeps in its call until the answer, so the number cannot go to another one meanwhile.

use std::cell::Cell;
use std::fs;
use std::sync::OnceLock;
use std::thread;

use neuron_hw::memory::Piece;
use neuron_kmd::caller::UserMemory;
use neuron_kmd::sync::signal;
use rustix::process::Pid;

/// Page size of the split into pieces: a piece never crosses the border between a page that is
/// there and one that is not, whatever the real page size is.
const PAGE: u64 = 4096;

/// Pieces of one transfer; the system takes 1024 at most.
const PIECES: usize = 256;

/// Bytes of one transfer; the system takes a little less than 2 GiB at most.
const LONGEST: usize = 1 << 30;

/// Bytes a thread must have to move to be worth its start, and threads of one transfer at most.
const SHARE: usize = 4 << 20;
const THREADS: usize = 4;

/// Memory of the process a thread belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    tid: u32,
}

/// Memory of this process that one thread moves bytes from or to for another.
#[derive(Clone, Copy)]
struct Local(*mut u8);

// SAFETY: only the bytes behind it are used, and whoever makes one vouches for them.
unsafe impl Send for Local {}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    FromClient,
    ToClient,
}

impl Memory {
    /// Memory as this thread sees it.
    pub fn of(tid: u32) -> Self {
        Self { tid }
    }

    /// Moves `length` bytes between `local` and the client; returns how many were moved before
    /// the first page that cannot be reached. A long transfer is shared by several threads, as the
    /// rings of an engine share one; then bytes behind such a page may have been moved as well.
    ///
    /// # Safety
    /// `local` must be valid for `length` bytes, and for writing when they come from the client.
    unsafe fn transfer(&self, address: u64, local: *mut u8, length: usize, direction: Direction) -> usize {
        static PROCESSORS: OnceLock<usize> = OnceLock::new();
        let processors = || *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
        if length < 2 * SHARE || processors() < 2 {
            // SAFETY: the caller vouches for it.
            return unsafe { self.move_part(address, local, length, direction) };
        }
        let share = length.div_ceil((length / SHARE).min(processors()).min(THREADS)).next_multiple_of(PAGE as usize);
        let bytes_from = |start: usize| share.min(length - start);
        // Moves what begins at `start`, and says how much.
        let part = |start: usize| {
            let (address, local) = (address.saturating_add(start as u64), Local(local.wrapping_add(start)));
            move || {
                let local = local;
                // SAFETY: a part of what the caller vouches for, and no other part has it.
                unsafe { self.move_part(address, local.0, bytes_from(start), direction) }
            }
        };
        thread::scope(|scope| {
            let others = (share..length).step_by(share).map(|start| {
                // Without another thread this one has to do.
                let other = thread::Builder::new().spawn_scoped(scope, part(start)).map_err(|_| part(start));
                (start, other)
            });
            let others: Vec<_> = others.collect();
            let mut done = part(0)();
            for (start, other) in others {
                let moved = other.map_or_else(|part| part(), |other| other.join().expect("a transfer does not panic"));
                // Only what follows whole parts counts.
                if done == start {
                    done += moved;
                }
            }
            done
        })
    }

    /// A part of a transfer.
    ///
    /// # Safety
    /// As [`Self::transfer`].
    unsafe fn move_part(&self, address: u64, local: *mut u8, length: usize, direction: Direction) -> usize {
        let mut done = 0;
        // The whole in one piece is faster by far. Only in pieces of a page the system promises to
        // move all there is before the first page that cannot be reached.
        let mut by_page = false;
        while done < length {
            let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES];
            let (mut count, mut bytes) = (0, 0);
            let rest = (length - done).min(LONGEST);
            while count < PIECES && bytes < rest {
                let Some(at) = address.checked_add((done + bytes) as u64) else { break };
                let page = (PAGE - at % PAGE) as usize;
                let piece = if by_page { page.min(rest - bytes) } else { rest };
                pieces[count] = libc::iovec { iov_base: at as *mut _, iov_len: piece };
                count += 1;
                bytes += piece;
            }
            if bytes == 0 {
                break;
            }
            let near = libc::iovec { iov_base: local.wrapping_add(done).cast(), iov_len: bytes };
            let (tid, far, count) = (self.tid as libc::pid_t, pieces.as_ptr(), count as libc::c_ulong);
            // SAFETY: `near` lies inside the caller's `length` bytes; the far addresses belong to
            // another process and are checked by the kernel.
            let moved = unsafe {
                match direction {
                    Direction::FromClient => libc::process_vm_readv(tid, &near, 1, far, count, 0),
                    Direction::ToClient => libc::process_vm_writev(tid, &near, 1, far, count, 0),
                }
            };
            let moved = usize::try_from(moved).unwrap_or(0);
            done += moved;
            if moved < bytes && std::mem::replace(&mut by_page, true) {
                break;
            }
        }
        done
    }
}

impl UserMemory for Memory {
    fn read(&self, address: u64, data: &mut [u8]) -> usize {
        // SAFETY: an exclusive slice is valid for its length, also for writing.
        data.len() - unsafe { self.transfer(address, data.as_mut_ptr(), data.len(), Direction::FromClient) }
    }

    fn write(&self, address: u64, data: &[u8]) -> usize {
        // SAFETY: a slice is valid for its length; this direction only reads it.
        data.len() - unsafe { self.transfer(address, data.as_ptr().cast_mut(), data.len(), Direction::ToClient) }
    }

    fn fetch(&self, address: u64, to: Piece<'_>) -> usize {
        // SAFETY: a piece is valid for its length in both directions.
        to.len() - unsafe { self.transfer(address, to.as_ptr(), to.len(), Direction::FromClient) }
    }

    fn store(&self, address: u64, from: Piece<'_>) -> usize {
        // SAFETY: as above.
        from.len() - unsafe { self.transfer(address, from.as_ptr(), from.len(), Direction::ToClient) }
    }
}

/// Whether thread `tid` belongs to group `tgid`, asked without touching `/proc`.
fn belongs(tgid: u32, tid: u32) -> bool {
    // SAFETY: signal 0 is only checked, never sent.
    unsafe { libc::syscall(libc::SYS_tgkill, tgid, tid, 0) == 0 }
}

thread_local! {
    /// The last thread this server thread looked up, and its group.
    static LAST: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Thread group of a thread; `None` when it is gone.
pub fn thread_group(tid: u32) -> Option<u32> {
    if belongs(tid, tid) {
        return Some(tid);
    }
    let (last, tgid) = LAST.get();
    if last == tid && belongs(tgid, tid) {
        return Some(tgid);
    }
    let tgid = status_field(&status(tid)?, "Tgid:")?.parse().ok()?;
    LAST.set((tid, tgid));
    Some(tgid)
}

fn status(tid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{tid}/status")).ok()
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn has(mask: u64, signal: i32) -> bool {
    mask >> (signal - 1) & 1 != 0
}

/// Signals of [`signal`] that are pending for a thread and that the driver notices: a kill, and
/// a terminate that was sent to the thread itself. A thread that is gone counts as killed.
pub fn pending_signals(tid: u32) -> u32 {
    let Some(status) = status(tid) else { return signal::KILL };
    let mask = |name| status_field(&status, name).and_then(|v| u64::from_str_radix(v, 16).ok()).unwrap_or(0);
    let (own, group) = (mask("SigPnd:"), mask("ShdPnd:"));
    let kill = if has(own | group, libc::SIGKILL) { signal::KILL } else { 0 };
    let term = if has(own, libc::SIGTERM) { signal::TERM } else { 0 };
    kill | term
}

/// A handle on a process that becomes readable when the process ends.
pub fn pidfd(tgid: u32) -> Option<std::os::fd::OwnedFd> {
    let pid = Pid::from_raw(tgid as i32)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Whether a process maps the file with this device and inode number. The kernel shows a mapping
/// that was passed through under the file it was made with.
pub fn maps(tgid: u32, device: u64, inode: u64) -> bool {
    let Ok(maps) = fs::read_to_string(format!("/proc/{tgid}/maps")) else { return false };
    let place = format!("{:02x}:{:02x}", libc::major(device), libc::minor(device));
    let inode = inode.to_string();
    maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(3);
        fields.next() == Some(&place) && fields.next() == Some(&inode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        Memory::of(std::process::id())
    }

    /// Two pages of which only the first is there.
    fn half_mapped() -> *mut u8 {
        // SAFETY: a fresh anonymous mapping; the second page of it is taken away again.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(std::ptr::null_mut(), 8192, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            assert_eq!(libc::munmap(map.cast::<u8>().add(4096).cast(), 4096), 0);
            map.cast()
        }
    }

    #[test]
    fn a_copy_that_runs_into_a_missing_page_counts_the_bytes_left() {
        let base = half_mapped() as u64;
        let mut data = [7; 64];
        assert_eq!(memory().write(base + 4096 - 16, &data), 48);
        assert_eq!(memory().read(base + 4096 - 16, &mut data), 48);
        assert_eq!(memory().read(base + 4096, &mut data), 64);
        assert_eq!(memory().read(0, &mut data), 64);
        assert_eq!(memory().read(u64::MAX - 8, &mut data), 64);
        assert_eq!(memory().read(base, &mut []), 0);
    }

    #[test]
    fn large_copies_arrive_whole() {
        let source: Vec<u8> = (0..5_000_003_u32).map(|i| (i % 251) as u8).collect();
        let mut target = vec![0; source.len()];
        assert_eq!(memory().read(source.as_ptr() as u64, &mut target), 0);
        assert!(source == target);
        let mut copy = vec![0; source.len()];
        assert_eq!(memory().write(copy.as_mut_ptr() as u64, &source), 0);
        assert!(source == std::hint::black_box(copy));
    }

    /// Every way to cut a transfer, with the pages behind its end missing: the count is exact.
    #[test]
    fn a_long_copy_counts_the_bytes_before_the_first_missing_page() {
        const THERE: usize = 5 * SHARE + 4096;
        const MAPPED: usize = THERE + 6 * SHARE;
        // SAFETY: a fresh anonymous mapping, whose pages from `THERE` on nobody may use; they stay mapped, so
        // that no other test can get them.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(std::ptr::null_mut(), MAPPED, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(map.cast::<u8>().add(THERE).cast(), MAPPED - THERE, libc::PROT_NONE), 0);
            map as u64
        };
        let source: Vec<u8> = (0..MAPPED).map(|i| (i ^ (i >> 11)) as u8).collect();
        let mut target = vec![0; MAPPED];
        for length in [2 * SHARE - 1, 2 * SHARE, 3 * SHARE + 5, THERE - 7, THERE - 6, 2 * THERE, MAPPED - 7] {
            let (there, start) = (length.min(THERE - 7), base + 7);
            assert_eq!(memory().write(start, &source[..length]), length - there, "{length}");
            assert_eq!(memory().read(start, &mut target[..length]), length - there, "{length}");
            assert!(target[..there] == source[..there], "{length}");
            target.fill(0);
        }
        // SAFETY: the mapping above.
        assert_eq!(unsafe { libc::munmap(base as *mut _, MAPPED) }, 0);
    }

    #[test]
    fn a_thread_belongs_to_its_process() {
        let me = std::process::id();
        assert_eq!(thread_group(me), Some(me));
        // SAFETY: no arguments, cannot fail.
        let tid = || unsafe { libc::gettid() } as u32;
        let (found, again) =
            std::thread::spawn(move || (thread_group(tid()), thread_group(tid()))).join().expect("thread");
        assert_eq!((found, again), (Some(me), Some(me)));
        assert_eq!(thread_group(u32::MAX >> 1), None);
    }

    #[test]
    fn nothing_is_pending_for_a_thread_that_runs_and_one_that_is_gone_was_killed() {
        assert_eq!(pending_signals(std::process::id()), 0);
        assert_eq!(pending_signals(u32::MAX >> 1), signal::KILL);
    }
}
