//! Arguments for any public call, from its prototype: right ones most of the time, else NULL, stale and bogus handles, absurd
//! numbers. What the library trusts its caller with is kept: a pointer is NULL or leads to as many bytes as announced (in a block
//! of its own, so that one byte more is found out), a text ends, a buffer outlives the tensor it is attached to.

use crate::table::Symbol;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};

/// The bytes of a fuzz input, zeros behind their end.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn one_in(&mut self, n: u8) -> bool {
        self.byte() % n == n - 1
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[usize::from(self.byte()) % from.len()]
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head
    }
}

/// Kinds of opaque objects and how each is freed.
pub const FREE: [(&str, &str); 6] = [
    ("nrt_tensor_set_t", "nrt_destroy_tensor_set"),
    ("nrt_tensor_t", "nrt_tensor_free"),
    ("nrt_inspect_config_t", "nrt_inspect_config_free"),
    ("nrt_profile_continuous_options_t", "nrt_profile_continuous_options_free"),
    ("nrt_sys_trace_config_t", "nrt_sys_trace_config_free"),
    ("nrt_sys_trace_fetch_options_t", "nrt_sys_trace_fetch_options_free"),
];

/// Opaque objects only stubs know.
const UNBORN: [&str; 4] =
    ["nrt_model_t", "nrt_cc_context_t", "nrt_async_sendrecv_comm_t", "nrt_async_sendrecv_request_t"];

/// Which lengths announce which buffers, per call: buffer, length, bytes of an element. The caller is trusted with them.
const ANNOUNCED: [(&str, &str, &str, usize); 15] = [
    ("nrt_get_instance_info", "info", "instance_info_len", 1),
    ("nrt_get_version", "ver", "size", 1),
    ("nrt_get_vnc_memory_stats", "stats", "stats_size_in", 1),
    ("nrt_get_model_info", "info", "info_size_in", 1),
    ("nrt_get_libnccl_net", "err_msg", "err_msg_size", 1),
    ("nrt_inspect_get_instance_output_dir", "instance_dir_buf", "buf_size", 1),
    ("nrt_tensor_read", "buf", "size", 1),
    ("nrt_tensor_write", "buf", "size", 1),
    ("nrta_tensor_read", "buf", "size", 1),
    ("nrta_tensor_write", "buf", "size", 1),
    ("nrt_tensor_attach_buffer", "buffer", "size", 1),
    ("nrt_memcpy_to_device", "dest", "size", 1),
    ("nrt_memcpy_to_device", "src", "size", 1),
    ("nrt_load", "neff_bytes", "size", 1),
    ("nec_get_device_count", "available_devices_array", "array_size", 4),
];

/// Calls whose record or range has an end of its own, however much is announced: absurd lengths are safe, and must be.
const BOUNDED: [&str; 7] = [
    "nrt_get_instance_info",
    "nrt_get_version",
    "nrt_get_vnc_memory_stats",
    "nrt_tensor_read",
    "nrt_tensor_write",
    "nrta_tensor_read",
    "nrta_tensor_write",
];

/// Bytes behind a pointer that no length announces: larger than any record.
const RECORD: usize = 1024;

const TEXTS: [&CStr; 9] =
    [c"", c"a", c"b", c"\xff\xfe", c"system_profile", c"all", c"device_profile", c"hardware", c"nrt_execute"];

/// Handles by kind, in the order they were made; freed ones stay, to be used again.
#[derive(Default)]
pub struct Handles(HashMap<String, Vec<u64>>);

impl Handles {
    /// All of a kind; they are forgotten.
    pub fn take(&mut self, ctype: &str) -> Vec<u64> {
        self.0.remove(ctype).unwrap_or_default()
    }

    fn choose(&self, ctype: &str, input: &mut Input<'_>) -> u64 {
        let known = self.0.get(ctype).map_or(&[][..], Vec::as_slice);
        match input.byte() {
            0..8 => 0,
            8..12 => input.word(),
            // Of another kind, or near a right one.
            12..16 => self.0.values().next().map_or(1, |others| others[0]),
            16..20 => known.last().map_or(u64::MAX, |handle| handle + 64),
            20..24 => known.last().map_or(1, |handle| handle + 1),
            _ if known.is_empty() => 0,
            // The latest ones most of the time.
            pick @ 24..128 => known[known.len() - 1 - usize::from(pick) % known.len().min(3)],
            pick => known[usize::from(pick) % known.len()],
        }
    }
}

/// One call with everything its pointers lead to.
pub struct Call<'s> {
    pub symbol: &'s Symbol<'static>,
    pub arguments: [u64; 9],
    blocks: Vec<Box<[u8]>>,
    /// Positions of parameters that receive a handle, by kind, and what was there before.
    made: Vec<(usize, &'static str, u64)>,
}

fn base(ctype: &str) -> &str {
    ctype.trim_start_matches("const ").trim_start_matches("volatile ").trim_end_matches(['*', ' '])
}

fn small(input: &mut Input<'_>) -> u64 {
    let sizes = [0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 63, 64, 100, 200, 255, 256, 1000, 4095, 4096, 4097, 20_000];
    *input.pick(&sizes)
}

fn absurd(input: &mut Input<'_>) -> u64 {
    *input.pick(&[u64::MAX, u64::MAX - 7, i64::MAX as u64, 1 << 63, (1 << 63) + 1, 1 << 62])
}

impl<'s> Call<'s> {
    /// The call with every argument 0.
    pub fn plain(symbol: &'s Symbol<'static>) -> Call<'s> {
        Call { symbol, arguments: [0; 9], blocks: Vec::new(), made: Vec::new() }
    }

    pub fn random(symbol: &'s Symbol<'static>, input: &mut Input<'_>, handles: &Handles) -> Call<'s> {
        let mut call = Call::plain(symbol);
        for at in 0..symbol.params.len() {
            call.arguments[at] = call.argument(at, input, handles);
        }
        call.agree(input, handles);
        call
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.symbol.params.iter().position(|param| param.name == name)
    }

    /// A block of its own with these bytes; its address.
    fn block(&mut self, bytes: Vec<u8>) -> u64 {
        let mut block = bytes.into_boxed_slice();
        let address = block.as_mut_ptr().expose_provenance() as u64;
        self.blocks.push(block);
        address
    }

    fn text(&mut self, input: &mut Input<'_>) -> u64 {
        let mut text = match input.byte() {
            0..12 => return 0,
            12..16 => vec![b'x'; 4090 + usize::from(input.byte() % 12)],
            16..48 => {
                let length = usize::from(input.byte() % 16);
                input.bytes(length).iter().copied().filter(|byte| *byte != 0).collect()
            }
            _ => input.pick(&TEXTS).to_bytes().to_vec(),
        };
        text.push(0);
        self.block(text)
    }

    /// One argument by its type alone.
    fn argument(&mut self, at: usize, input: &mut Input<'_>, handles: &Handles) -> u64 {
        let param = &self.symbol.params[at];
        let (ctype, kind) = (param.ctype, base(param.ctype));
        let stars = ctype.matches('*').count();
        let opaque = FREE.iter().map(|(kind, _)| *kind).chain(UNBORN).find(|known| *known == kind);
        match (stars, opaque, ctype) {
            (1, Some(kind), _) => handles.choose(kind, input),
            (2, Some(kind), _) => {
                // In and out alike: what is there is a handle, or nothing.
                let before = handles.choose(kind, input);
                if input.one_in(16) {
                    return 0;
                }
                self.made.push((at, kind, before));
                self.block(before.to_ne_bytes().to_vec())
            }
            (1, None, "const char *") => self.text(input),
            // A list to free comes from the library; `collect` gives those back.
            (2, None, "const char **") => 0,
            (0, None, "NRT_ASYNC_EXEC_STATUS_CALLBACK") => 0,
            (0, None, _) if param.name == "stream_fd" => u64::from(u32::MAX),
            (0, None, "bool") => *input.pick(&[0, 1, 1, 255]),
            (0, None, "int" | "int32_t" | "uint32_t") => match input.byte() {
                0..8 => input.word(),
                8..12 => u64::MAX,
                12..16 => i32::MAX as u64,
                16..20 => i32::MIN as u32 as u64,
                pick => u64::from(pick % 4),
            },
            (0, None, "size_t" | "uint64_t" | "int64_t" | "nrta_seq_t") => match input.byte() {
                0..8 => input.word() | 1 << 47,
                8..16 => absurd(input),
                _ => small(input),
            },
            // An enum.
            (0, None, _) => match input.byte() {
                0..16 => input.word(),
                pick => u64::from(pick % 8),
            },
            _ if input.one_in(16) => 0,
            _ => self.block(vec![0xA5; RECORD]),
        }
    }

    /// What arguments say about each other.
    fn agree(&mut self, input: &mut Input<'_>, handles: &Handles) {
        let name = self.symbol.name;
        for (call, buffer, length, element) in ANNOUNCED {
            if call != name {
                continue;
            }
            let (Some(buffer), Some(length)) = (self.position(buffer), self.position(length)) else {
                panic!("{name} has other parameters by now");
            };
            if BOUNDED.contains(&name) && self.arguments[length] >= 1 << 40 {
                continue;
            }
            let announced = match self.arguments[length] & u64::from(u32::MAX) {
                fine if fine <= 20_000 => fine,
                _ => small(input),
            };
            self.arguments[length] = announced;
            if self.arguments[buffer] != 0 || name == "nrt_memcpy_to_device" {
                let fill = input.byte();
                self.arguments[buffer] = self.block(vec![fill; announced as usize * element]);
            }
        }
        match name {
            // Host memory is really taken.
            "nrt_tensor_allocate" => {
                if self.arguments[0] as u32 == 0 && input.one_in(8) {
                    self.arguments[2] = 1 << (20 + input.byte() % 16);
                } else if input.one_in(8) {
                    self.arguments[2] = *input.pick(&[4 << 20, (4 << 20) + 1, 5 << 20]);
                }
            }
            // Nothing completes outputs here, so a wait would be for ever.
            "nrt_tensor_check_output_completion" if self.arguments[2] != 0 => self.arguments[1] %= 20,
            "nrt_tensor_read_batch" | "nrt_tensor_write_batch" => self.batches(input, handles),
            _ => {}
        }
    }

    /// A batch of transfers, `nrt_tensor_batch_t` and `nrt_tensor_batch_op_t` of the header.
    fn batches(&mut self, input: &mut Input<'_>, handles: &Handles) {
        if input.one_in(16) {
            (self.arguments[0], self.arguments[1]) = (0, absurd(input));
            return;
        }
        let mut batches = Vec::new();
        let count = u64::from(input.byte() % 4);
        for _ in 0..count {
            let ops = u64::from(input.byte() % 4);
            let mut list = Vec::new();
            for _ in 0..ops {
                let (offset, size) = (small(input), small(input));
                let null = input.one_in(16);
                let buffer = if null { 0 } else { self.block(vec![0x5A; size as usize]) };
                let size = if input.one_in(16) { absurd(input) } else { size };
                [offset, size, buffer].iter().for_each(|word| list.extend(word.to_ne_bytes()));
            }
            let list = if ops == 0 { 0 } else { self.block(list) };
            let tensor = handles.choose("nrt_tensor_t", input);
            [tensor, list, ops].iter().for_each(|word| batches.extend(word.to_ne_bytes()));
        }
        self.arguments[0] = self.block(batches);
        self.arguments[1] = count;
    }

    /// The word at the address in argument `at`.
    fn word(&self, at: usize) -> u64 {
        let address = std::ptr::with_exposed_provenance::<u64>(self.arguments[at] as usize);
        // SAFETY: the argument is not 0 and leads to a block of at least a word.
        unsafe { address.read_unaligned() }
    }

    /// Note the handles the call made, and look through the lists it made and give them back.
    pub fn collect(&self, status: Option<u32>, handles: &mut Handles, free: impl Fn(&str, u64, u64)) {
        for &(at, kind, before) in &self.made {
            let now = self.word(at);
            if now != 0 && now != before {
                assert!(status.is_none_or(|status| status == 0), "{} failed and made something", self.symbol.name);
                handles.0.entry(kind.to_owned()).or_default().push(now);
            }
        }
        let list = self.symbol.params.iter().position(|param| param.ctype == "const char ***");
        if let (Some(list), Some(0)) = (list, status) {
            let count = self.position("count").expect("a list has a count");
            let (list, count) = (self.word(list), self.word(count));
            for at in 0..count as usize {
                let place = std::ptr::with_exposed_provenance::<*const c_char>(list as usize);
                // SAFETY: the library says that the list has `count` texts.
                assert!(!unsafe { CStr::from_ptr(place.add(at).read()) }.is_empty());
            }
            let inspect = self.symbol.name.starts_with("nrt_inspect");
            let name =
                if inspect { "nrt_inspect_config_free_activity_types" } else { "nrt_sys_trace_free_event_types" };
            free(name, list, count);
        }
    }
}
