//! Argument structs of the commands (`facts/driver/ioctl_structs.tsv`).
//!
//! Each struct has the memory layout of its C counterpart (checked at compile time) and a byte
//! codec, [`Wire`]. The codec reads and writes the named fields only, so padding that a caller
//! left in its buffer survives a round trip, as it does in the driver.

mod cores;
mod device;
mod dma;
mod mem;

pub use self::{cores::*, device::*, dma::*, mem::*};

/// An address in the calling process.
pub type UserPtr = u64;

/// A value with a fixed little-endian byte image.
pub trait Wire: Sized {
    /// Bytes of the image, padding included.
    const SIZE: usize;

    /// Bytes of one element of an array, else of the value.
    const ELEMENT: usize = Self::SIZE;

    /// Reads the value from the first [`Self::SIZE`] bytes.
    ///
    /// # Panics
    /// When `bytes` is shorter than the image.
    fn get(bytes: &[u8]) -> Self;

    /// Writes the fields into the first [`Self::SIZE`] bytes and leaves padding bytes alone.
    ///
    /// # Panics
    /// When `bytes` is shorter than the image.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! wire_int {
    ($($int:ty)*) => {$(
        impl Wire for $int {
            const SIZE: usize = size_of::<$int>();

            fn get(bytes: &[u8]) -> Self {
                let mut image = [0; size_of::<$int>()];
                image.copy_from_slice(&bytes[..Self::SIZE]);
                Self::from_le_bytes(image)
            }

            fn put(&self, bytes: &mut [u8]) {
                bytes[..Self::SIZE].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

wire_int!(u8 u16 u32 u64 i8 i16 i32 i64);

impl<T: Wire, const N: usize> Wire for [T; N] {
    const SIZE: usize = T::SIZE * N;
    const ELEMENT: usize = T::SIZE;

    fn get(bytes: &[u8]) -> Self {
        std::array::from_fn(|i| T::get(&bytes[i * T::SIZE..]))
    }

    fn put(&self, bytes: &mut [u8]) {
        for (i, item) in self.iter().enumerate() {
            item.put(&mut bytes[i * T::SIZE..]);
        }
    }
}

/// Where one field lies in a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in the driver's header.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes of the field.
    pub size: usize,
    /// Bytes of one element of an array, else the size.
    pub element: usize,
}

/// Layout of one struct, for lookups by name.
#[derive(Debug, PartialEq, Eq)]
pub struct StructInfo {
    /// Name in the driver's header.
    pub name: &'static str,
    /// Bytes of the struct, without a flexible array at its end.
    pub size: usize,
    /// Named fields in order of their offset.
    pub fields: &'static [Field],
}

impl StructInfo {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}

/// The C spelling of a field whose name is a word of Rust.
const fn c_name(rust: &'static str) -> &'static str {
    match rust.as_bytes() {
        [b'r', b'#', ..] => rust.split_at(2).1,
        _ => rust,
    }
}

/// Declares structs with checked layout, their codec and their layout table.
macro_rules! layout {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident = $c:literal, $size:literal bytes {
            $($field:ident: $ty:ty = $offset:literal,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name {
            $(
                #[doc = concat!("`", stringify!($field), "`, at byte ", stringify!($offset), ".")]
                pub $field: $ty,
            )*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(std::mem::offset_of!($name, $field) == $offset);)*
        };

        impl $name {
            /// Layout table.
            pub const INFO: &'static $crate::kernel::args::StructInfo = &$crate::kernel::args::StructInfo {
                name: $c,
                size: $size,
                fields: &[$($crate::kernel::args::Field {
                    name: $crate::kernel::args::c_name(stringify!($field)),
                    offset: $offset,
                    size: <$ty as $crate::kernel::args::Wire>::SIZE,
                    element: <$ty as $crate::kernel::args::Wire>::ELEMENT,
                }),*],
            };
        }

        impl $crate::kernel::args::Wire for $name {
            const SIZE: usize = $size;

            fn get(bytes: &[u8]) -> Self {
                Self { $($field: <$ty as $crate::kernel::args::Wire>::get(&bytes[$offset..]),)* }
            }

            fn put(&self, bytes: &mut [u8]) {
                $($crate::kernel::args::Wire::put(&self.$field, &mut bytes[$offset..]);)*
            }
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::kernel::args::Wire>::get(&[0; $size])
            }
        }
    )*

        /// Layout tables of this file.
        pub(super) const INFOS: &[&$crate::kernel::args::StructInfo] = &[$($name::INFO),*];
    };
}
use layout;

/// Layout tables of all structs.
pub fn structs() -> impl Iterator<Item = &'static StructInfo> {
    [device::INFOS, cores::INFOS, dma::INFOS, mem::INFOS].into_iter().flatten().copied()
}

/// The layout table of the struct with this C name.
pub fn find_struct(name: &str) -> Option<&'static StructInfo> {
    structs().find(|s| s.name == name)
}
