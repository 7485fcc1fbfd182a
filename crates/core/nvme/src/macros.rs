//! Macros that keep the definitions close to the specification's tables.

/// Defines a number with named values: any value may come from the wire, the known ones have names.
///
/// The type is `repr(transparent)` and has the named values as constants. [`name`](Csi::name) gives the
/// specification's words. `from_bits` and `into_bits` are for use inside bit fields. `Display` prints the
/// words, or the number in hexadecimal when it has none. Those of one byte may stand in wire structures.
macro_rules! open_enum {
    ($(#[$meta:meta])* $vis:vis struct $name:ident: u8 { $($body:tt)* }) => {
        open_enum! {
            @define
            $(#[$meta])*
            #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
                zerocopy::Immutable, zerocopy::Unaligned)]
            $vis struct $name: u8 { $($body)* }
        }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident: u32 { $($body:tt)* }) => {
        open_enum! { @define $(#[$meta])* $vis struct $name: u32 { $($body)* } }
    };
    (@define $(#[$meta:meta])* $vis:vis struct $name:ident: $repr:ident {
        $($(#[$vmeta:meta])* $value:ident = $number:expr => $words:expr),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        $vis struct $name(pub $repr);

        impl $name {
            $($(#[$vmeta])* pub const $value: Self = Self($number);)*

            /// The specification's words for this value, if it is one that the crate knows.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                $(if self.0 == $number { return Some($words); })*
                None
            }

            /// From the bits of a field.
            #[must_use]
            pub const fn from_bits(bits: $repr) -> Self {
                Self(bits)
            }

            /// To the bits of a field.
            #[must_use]
            pub const fn into_bits(self) -> $repr {
                self.0
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:02X}h", self.0),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x}"), self.0)?;
                if let Some(name) = self.name() {
                    write!(f, ": {name}")?;
                }
                f.write_str(")")
            }
        }
    };
}

/// Asserts the size of a wire structure, and offsets of fields, at compile time.
macro_rules! layout {
    ($name:ty, $size:expr $(, $field:ident @ $offset:expr)* $(,)?) => {
        const _: () = assert!(size_of::<$name>() == $size);
        const _: () = assert!(align_of::<$name>() == 1);
        $(const _: () = assert!(core::mem::offset_of!($name, $field) == $offset);)*
    };
}

/// Defines a structure of the wire: byte-exact, little endian, convertible from and to bytes.
macro_rules! wire {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident[$size:expr] {
        $($(#[$fmeta:meta])* $fvis:vis $field:ident: $ty:ty),* $(,)?
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable,
            zerocopy::Unaligned)]
        #[repr(C)]
        $vis struct $name {
            $($(#[$fmeta])* $fvis $field: $ty,)*
        }

        impl Default for $name {
            /// All bytes zero.
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        layout!($name, $size);
    )*};
}

/// A bit field of one byte inside a wire structure.
macro_rules! bits8 {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($body:tt)* })*) => {$(
        $(#[$meta])*
        #[bitfield_struct::bitfield(u8)]
        #[derive(PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable, zerocopy::Unaligned)]
        $vis struct $name { $($body)* }
    )*};
}

/// A little-endian bit field of two bytes inside a wire structure.
macro_rules! bits16 {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($body:tt)* })*) => {$(
        $(#[$meta])*
        #[bitfield_struct::bitfield(u16, repr = crate::U16, from = crate::U16::new, into = crate::U16::get)]
        #[derive(PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable, zerocopy::Unaligned)]
        $vis struct $name { $($body)* }
    )*};
}

/// A little-endian bit field of four bytes inside a wire structure, or one command dword.
macro_rules! bits32 {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($body:tt)* })*) => {$(
        $(#[$meta])*
        #[bitfield_struct::bitfield(u32, repr = crate::U32, from = crate::U32::new, into = crate::U32::get)]
        #[derive(PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable, zerocopy::Unaligned)]
        $vis struct $name { $($body)* }
    )*};
}

/// A little-endian bit field of eight bytes.
macro_rules! bits64 {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($body:tt)* })*) => {$(
        $(#[$meta])*
        #[bitfield_struct::bitfield(u64, repr = crate::U64, from = crate::U64::new, into = crate::U64::get)]
        #[derive(PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable, zerocopy::Unaligned)]
        $vis struct $name { $($body)* }
    )*};
}
