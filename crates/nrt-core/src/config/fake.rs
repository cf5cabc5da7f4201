//! The simulated instance type: once seen set it holds for the life of the process, not set it is
//! looked up again (`facts/config/rules.md` section 15).

use super::{
    choice::Fake,
    env::{Env, Process},
    parse::{Fault, Value},
    store,
};
use crate::{
    Result,
    device::product::{PRODUCTS, Product},
};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) const VARIABLE: &str = "NEURON_RT_FAKE_INSTANCE_TYPE";

/// One more than the index of the pinned product; 0 for none.
static PINNED: AtomicUsize = AtomicUsize::new(0);

fn pinned() -> Option<&'static Product> {
    PRODUCTS.get(PINNED.load(Ordering::Acquire).wrapping_sub(1))
}

/// The simulated product, or `None` when none is asked for. A product that was found once is the
/// answer for good, without a lock and without a look at the environment.
///
/// # Errors
/// `Invalid` for an unknown name; the reason is logged and lists the names there are.
pub fn fake_product() -> Result<Option<&'static Product>> {
    find(&Process).map_err(|fault| fault.report("nrt_config_parse_funtime"))
}

pub(super) fn find(env: &dyn Env) -> std::result::Result<Option<&'static Product>, Fault> {
    if let Some(product) = pinned() {
        return Ok(Some(product));
    }
    let Some(product) = parse(env)? else { return Ok(None) };
    if let Some(index) = PRODUCTS.iter().position(|known| known.name == product.name) {
        // Two threads may have seen different texts: the first one to get here decides for both.
        let _ = PINNED.compare_exchange(0, index + 1, Ordering::AcqRel, Ordering::Acquire);
    }
    let product = pinned().unwrap_or(product);
    store::note_fake(product);
    Ok(Some(product))
}

/// What the variable says, without regard to what is pinned.
pub(super) fn parse(env: &dyn Env) -> std::result::Result<Option<&'static Product>, Fault> {
    let Some(text) = env.get(VARIABLE) else { return Ok(None) };
    let fake = Fake::parse(&text).map_err(|reason| Fault::new(VARIABLE, &text, reason, Fake::form()))?;
    Ok(fake.0)
}
