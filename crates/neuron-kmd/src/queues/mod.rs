//! Notification queues, semaphores, events, raw registers and firmware requests.

mod firmware;
pub mod notify;
mod registers;

use neuron_abi::kernel::args::{AvailablePerfProfiles, MetricsCtrl};
use neuron_abi::kernel::ioctl::Op;

use crate::cdev::{Call, User};
use crate::reply::{Errno, Reply};

pub use firmware::Mailbox;
pub use notify::NotificationQueues;

pub(crate) fn ioctl(call: &Call<'_>) -> Reply {
    match call.row.op {
        Op::SemaphoreIncrement | Op::SemaphoreDecrement | Op::SemaphoreRead | Op::SemaphoreWrite => {
            registers::semaphore(call)
        }
        Op::EventSet | Op::EventGet => registers::event(call),
        Op::BarRead | Op::BarWrite => registers::bar(call),
        Op::PostMetric => firmware::post_metric(call),
        Op::ReadHwCounters => firmware::read_counters(call),
        Op::PowerProfile | Op::GetPerformanceProfile => firmware::power_profile(call),
        Op::ThrottlingNotifications => firmware::throttling(call),
        // The model posts no metrics of its own, so there is nothing to switch.
        Op::MetricsCtrl => call.copy_in::<MetricsCtrl>().map(|_| 0),
        // No profile is offered.
        Op::AvailablePerfProfiles => {
            let asked = call.copy_in::<AvailablePerfProfiles>()?.value;
            let mut user = User::fresh(call.arg);
            user.value = AvailablePerfProfiles { requested_feature: asked.requested_feature, ..Default::default() };
            call.copy_out(user)
        }
        Op::NotificationsInitV1 => notify::init_v1(call),
        Op::NotificationsInitV2 => notify::init_v2(call),
        Op::NotificationsInitWithReallocV2 => notify::init_with_realloc(call),
        // Removed or never finished in the driver; both have their answer.
        Op::NotificationsDestroyV1 => Ok(0),
        Op::NotificationsQueueInfo => Err(Errno::EPERM.into()),
        _ => Err(call.misrouted()),
    }
}
