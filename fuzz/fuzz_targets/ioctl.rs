//! Random sequences over the whole ioctl surface of the driver model, from several callers, with
//! arguments that are NULL, unmapped, cut off or random; invariants hold after each step.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    neuron_kmd::hostile::run(data);
});
