//! Requests to the firmware through host memory, and the commands that make them.
//!
//! A request lies in host memory; its address and that of the response go to the mailbox, then
//! the doorbell rings. The firmware answers with the sequence number of the request.

use std::time::Duration;

use neuron_abi::kernel::args::{PostMetric, PowerProfile, ReadHwCounters, ThrottlingNotifications};
use neuron_abi::kernel::ioctl::Op;
use neuron_hw::regs::misc;

use crate::cdev::Call;
use crate::device::Device;
use crate::memory::pools::HOST_HOLE;
use crate::profile::Profile;
use crate::reply::{Errno, Reply};
use crate::sync::{Mutex, Task};
use crate::time::sleep;

/// Command that reads hardware counters.
const READ: u8 = 1;
/// Command that posts a metric.
const POST_METRIC: u8 = 2;

/// Bytes before the payload: sequence, command, size and checksum of the request.
const HEADER: usize = 8;
/// Bytes before the payload of a response: sequence, error and size.
const RESPONSE_HEADER: usize = 4;

/// Bus address of the request. It and the response have 64 KiB each, below the host memory that
/// [`crate::memory`] hands out.
const REQUEST: u64 = 0x1_0000;
/// Bus address of the response.
const RESPONSE: u64 = 0x2_0000;

/// Bytes the size field of a request can hold.
const MAX_MESSAGE: usize = u16::MAX as usize;

const _: () = assert!(RESPONSE + MAX_MESSAGE as u64 <= HOST_HOLE);

/// Largest metric.
const MAX_METRIC: u32 = 128;

/// Largest piece of kernel memory for a copy of a caller's data.
const MAX_KERNEL_COPY: u64 = 4 << 20;

/// How long one try waits for the answer.
const TRY: Duration = Duration::from_secs(1);

/// Time between two looks at the response.
const POLL: Duration = Duration::from_millis(10);

/// The mailbox of one device: one request at a time.
#[derive(Debug, Default)]
pub struct Mailbox {
    sequence: Mutex<u8>,
    busy: Mutex<bool>,
    free: crate::sync::WaitQueue,
}

/// Holds the mailbox; gives it back when dropped.
struct Turn<'a>(&'a Device);

impl<'a> Turn<'a> {
    /// Waits for the mailbox. A request takes half a minute at most, so no signal ends the wait.
    fn take(device: &'a Device, task: &std::sync::Arc<Task>) -> Self {
        let mailbox = &device.mailbox;
        let guard = mailbox.busy.lock();
        let wait = crate::sync::Wait::uninterruptible();
        let (mut busy, _) = mailbox.free.wait(&*device.env.clock, task, &mailbox.busy, guard, wait, |busy| !*busy);
        *busy = true;
        Self(device)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.mailbox.busy.lock() = false;
        self.0.mailbox.free.wake_all(&*self.0.env.clock);
    }
}

/// CRC-32C, least significant bit first.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes
        .iter()
        .fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (POLYNOMIAL * (crc & 1))))
}

/// Sends a request and returns the payload of the answer, `answer` bytes long.
///
/// # Errors
/// `EPERM` when the firmware does not answer in any of the tries, or says something else.
fn request(call: &Call<'_>, command: u8, payload: &[u8], answer: usize) -> Result<Vec<u8>, Errno> {
    let (device, task) = (call.device, &call.caller.task);
    let size = HEADER + payload.len();
    let ram = device.silicon.host_ram().ok_or(Errno::EPERM)?;
    if size > MAX_MESSAGE || RESPONSE_HEADER + answer > MAX_MESSAGE {
        return Err(Errno::EPERM);
    }
    let base = device.dhal.layout().geometry.pci_host_base;
    let turn = Turn::take(device, task);
    let tries = if device.env.profile == Profile::V2_24_7 { 15 } else { 30 };
    for _ in 0..tries {
        let sequence = {
            let mut last = device.mailbox.sequence.lock();
            *last = last.wrapping_add(1);
            *last
        };
        let mut message = vec![sequence, command, size as u8, (size >> 8) as u8, 0, 0, 0, 0];
        message.extend(payload);
        let crc = crc32c(&message);
        message[4..8].copy_from_slice(&crc.to_le_bytes());
        // A response that cannot be mistaken for the answer: its sequence is another one.
        let stale = [!sequence, 0, 0, 0];
        let space = ram.space();
        let written = space.write(base | REQUEST, &message).and_then(|()| space.write(base | RESPONSE, &stale));
        written.map_err(|_| Errno::EPERM)?;
        for (register, address) in [(misc::REQUEST_HI, base | REQUEST), (misc::RESPONSE_HI, base | RESPONSE)] {
            device.regs.set_misc(register + 4, address as u32);
            device.regs.set_misc(register, (address >> 32) as u32);
        }
        device.regs.set_misc(misc::TRIGGER, 1);
        let end = device.env.clock.now() + TRY;
        loop {
            let mut response = vec![0; RESPONSE_HEADER + answer];
            space.read(base | RESPONSE, &mut response).map_err(|_| Errno::EPERM)?;
            if response[0] == sequence {
                drop(turn);
                let said = usize::from(u16::from_le_bytes([response[2], response[3]]));
                let fits = response[1] == 0 && said >= RESPONSE_HEADER + answer;
                return if fits { Ok(response.split_off(RESPONSE_HEADER)) } else { Err(Errno::EPERM) };
            }
            if device.env.clock.now() >= end {
                break;
            }
            sleep(&*device.env.clock, task, POLL);
        }
    }
    Err(Errno::EPERM)
}

/// A copy of a caller's bytes in kernel memory.
fn copy_in(call: &Call<'_>, address: u64, bytes: u64) -> Result<Vec<u8>, crate::reply::Stop> {
    if bytes > MAX_KERNEL_COPY {
        return Err(Errno::ENOMEM.into());
    }
    let mut data = vec![0; bytes as usize];
    call.read(address, &mut data)?;
    Ok(data)
}

pub(super) fn post_metric(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<PostMetric>()?.value;
    let data = copy_in(call, user.data, user.data_size.into())?;
    if user.data_size > MAX_METRIC {
        return Err(Errno::E2BIG.into());
    }
    request(call, POST_METRIC, &data, 0)?;
    Ok(0)
}

pub(super) fn read_counters(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<ReadHwCounters>()?.value;
    let addresses = copy_in(call, user.address, 8 * u64::from(user.count))?;
    let counters = request(call, READ, &addresses, 4 * user.count as usize)?;
    call.write(user.data, &counters)
}

/// Power profiles. No table says how the firmware is asked for one, so the model's firmware is
/// one that is too old for it.
pub(super) fn power_profile(call: &Call<'_>) -> Reply {
    let user = call.copy_in::<PowerProfile>()?;
    if usize::from(user.value.sz) != size_of::<PowerProfile>() {
        return Err(Errno::ENXIO.into());
    }
    if user.value.ctrl != 0 || call.device.dhal.has_power_profiles() {
        return Err(Errno::ENOTSUPP.into());
    }
    if call.row.op == Op::GetPerformanceProfile { call.copy_out(user) } else { Ok(0) }
}

/// Throttling notifications; see [`power_profile`].
pub(super) fn throttling(call: &Call<'_>) -> Reply {
    call.copy_in::<ThrottlingNotifications>()?;
    Err(Errno::ENOTSUPP.into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_one_everybody_calls_crc_32c() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
