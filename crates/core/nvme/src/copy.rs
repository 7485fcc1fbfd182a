//! Copy (NVM 3.3.2): the command and its source ranges.

use crate::command::{Command, IoOpcode};
use crate::pr_info::PrInfo;
use crate::{Nsid, U16, U32, U64};

/// Source ranges that one Copy carries at most: the field counts 256.
pub const COPY_RANGES_MAX: usize = 256;

/// Copy: gathers ranges of blocks into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copy {
    /// Namespace Identifier of the destination.
    pub nsid: Nsid,
    /// Starting Destination LBA.
    pub sdlba: u64,
    /// Number of Ranges, counted from one: 1 to 256.
    pub nr: u16,
    /// Descriptor Format: 0 to 3 ([`CopySource`]); others are reserved.
    pub desfmt: u8,
    /// Protection Information Field of the reads.
    pub prinfor: PrInfo,
    /// Protection Information Field of the write.
    pub prinfow: PrInfo,
    /// Storage Tag Check of the reads.
    pub stcr: bool,
    /// Storage Tag Check of the write.
    pub stcw: bool,
    /// Command Extension Type.
    pub cetype: u8,
    /// Directive Type.
    pub dtype: u8,
    /// Directive Specific.
    pub dspec: u16,
    /// Force Unit Access.
    pub fua: bool,
    /// Limited Retry.
    pub lr: bool,
    /// Logical Block Tags Upper of the destination.
    pub lbtu: u64,
    /// Logical Block Tags Lower of the destination.
    pub lbtl: u32,
    /// Logical Block Application Tag.
    pub lbat: u16,
    /// Logical Block Application Tag Mask.
    pub lbatm: u16,
}

bits32! {
    struct CopyCdw12 {
        #[bits(8)] nr_z: u8,
        #[bits(4)] desfmt: u8,
        #[bits(4)] prinfor: u8,
        #[bits(4)] cetype: u8,
        #[bits(4)] dtype: u8,
        stcw: bool,
        stcr: bool,
        #[bits(4)] prinfow: u8,
        fua: bool,
        lr: bool,
    }
    struct CopyCdw13 { #[bits(16)] _r: u16, #[bits(16)] dspec: u16 }
    struct CopyCdw15 { #[bits(16)] lbat: u16, #[bits(16)] lbatm: u16 }
}

wire! {
    /// Source Range Entry, Copy Descriptor Formats 0h and 2h (NVM 3.3.2, figures of the source range entries): for
    /// guards of 16 bits.
    pub struct CopySource16[32] {
        /// Source Namespace Identifier (format 2h).
        pub snsid: U32,
        /// Reserved.
        pub rsvd4: [u8; 4],
        /// Starting LBA.
        pub slba: U64,
        /// Number of Logical Blocks, zero-based.
        pub nlb_z: U16,
        /// Reserved.
        pub rsvd18: [u8; 4],
        /// Source Options (format 2h): bit 15 Fast Copy Only.
        pub sopt: U16,
        /// Expected Logical Block Tags.
        pub elbt: U32,
        /// Expected Logical Block Application Tag.
        pub elbat: U16,
        /// Expected Logical Block Application Tag Mask.
        pub elbatm: U16,
    }

    /// Source Range Entry, Copy Descriptor Formats 1h and 3h: for guards of 32 and 64 bits.
    pub struct CopySource64[40] {
        /// Source Namespace Identifier (format 3h).
        pub snsid: U32,
        /// Reserved.
        pub rsvd4: [u8; 4],
        /// Starting LBA.
        pub slba: U64,
        /// Number of Logical Blocks, zero-based.
        pub nlb_z: U16,
        /// Reserved.
        pub rsvd18: [u8; 4],
        /// Source Options (format 3h): bit 15 Fast Copy Only.
        pub sopt: U16,
        /// Reserved.
        pub rsvd24: [u8; 2],
        /// Expected Logical Block Tags: 80 bits, big endian.
        pub elbt: [u8; 10],
        /// Expected Logical Block Application Tag.
        pub elbat: U16,
        /// Expected Logical Block Application Tag Mask.
        pub elbatm: U16,
    }
}

/// A source range, of a descriptor of any format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopySource {
    /// Source Namespace Identifier; `None` is the destination's (formats 0h and 1h).
    pub snsid: Option<Nsid>,
    /// Starting LBA.
    pub slba: u64,
    /// Number of logical blocks, counted from one.
    pub nlb: u32,
    /// Fast Copy Only (formats 2h and 3h).
    pub fco: bool,
    /// Expected Logical Block Tags, upper 48 bits.
    pub lbtu: u64,
    /// Expected Logical Block Tags, lower 32 bits.
    pub lbtl: u32,
    /// Expected Logical Block Application Tag.
    pub lbat: u16,
    /// Expected Logical Block Application Tag Mask.
    pub lbatm: u16,
}

impl CopySource {
    /// Bytes of a descriptor of this format; `None` if it is reserved.
    #[must_use]
    pub const fn bytes(format: u8) -> Option<usize> {
        match format {
            0 | 2 => Some(size_of::<CopySource16>()),
            1 | 3 => Some(size_of::<CopySource64>()),
            _ => None,
        }
    }

    /// Reads a descriptor; `None` if the format is reserved or the bytes are too few.
    #[must_use]
    pub fn parse(format: u8, bytes: &[u8]) -> Option<Self> {
        use zerocopy::FromBytes;
        let other = format >= 2;
        Some(match format {
            0 | 2 => {
                let d = CopySource16::ref_from_prefix(bytes).ok()?.0;
                Self {
                    snsid: other.then(|| d.snsid.get()),
                    slba: d.slba.get(),
                    nlb: u32::from(d.nlb_z.get()) + 1,
                    fco: other && d.sopt.get() & 0x8000 != 0,
                    lbtu: 0,
                    lbtl: d.elbt.get(),
                    lbat: d.elbat.get(),
                    lbatm: d.elbatm.get(),
                }
            }
            1 | 3 => {
                let d = CopySource64::ref_from_prefix(bytes).ok()?.0;
                let (upper, lower) = d.elbt.split_at(6);
                let number = |part: &[u8]| part.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
                Self {
                    snsid: other.then(|| d.snsid.get()),
                    slba: d.slba.get(),
                    nlb: u32::from(d.nlb_z.get()) + 1,
                    fco: other && d.sopt.get() & 0x8000 != 0,
                    lbtu: number(upper),
                    lbtl: number(lower) as u32,
                    lbat: d.elbat.get(),
                    lbatm: d.elbatm.get(),
                }
            }
            _ => return None,
        })
    }

    /// Gives the descriptor's bytes in a format of 0 to 3; `nlb` is clamped to 1 to 65536. Others give nothing.
    pub fn write(&self, format: u8, mut out: impl FnMut(&[u8])) {
        use zerocopy::IntoBytes;
        let nlb_z = U16::new(u16::try_from(self.nlb.clamp(1, 65536) - 1).unwrap_or(u16::MAX));
        let sopt = U16::new(if self.fco { 0x8000 } else { 0 });
        let snsid = U32::new(self.snsid.unwrap_or(0));
        match format {
            0 | 2 => out(CopySource16 {
                snsid,
                slba: U64::new(self.slba),
                nlb_z,
                sopt,
                elbt: U32::new(self.lbtl),
                elbat: U16::new(self.lbat),
                elbatm: U16::new(self.lbatm),
                ..CopySource16::default()
            }
            .as_bytes()),
            1 | 3 => {
                let mut elbt = [0; 10];
                elbt[..6].copy_from_slice(&self.lbtu.to_be_bytes()[2..]);
                elbt[6..].copy_from_slice(&self.lbtl.to_be_bytes());
                out(CopySource64 {
                    snsid,
                    slba: U64::new(self.slba),
                    nlb_z,
                    sopt,
                    elbt,
                    elbat: U16::new(self.lbat),
                    elbatm: U16::new(self.lbatm),
                    ..CopySource64::default()
                }
                .as_bytes());
            }
            _ => {}
        }
    }
}

impl Copy {
    pub(crate) fn parse(cmd: &Command) -> Self {
        let (d12, d13, d15) = (CopyCdw12(cmd.cdw12), CopyCdw13(cmd.cdw13), CopyCdw15(cmd.cdw15));
        Self {
            nsid: cmd.nsid.get(),
            sdlba: cmd.cdw10_11(),
            nr: u16::from(d12.nr_z()) + 1,
            desfmt: d12.desfmt(),
            prinfor: PrInfo::from_nibble(d12.prinfor()),
            prinfow: PrInfo::from_nibble(d12.prinfow()),
            stcr: d12.stcr(),
            stcw: d12.stcw(),
            cetype: d12.cetype(),
            dtype: d12.dtype(),
            dspec: d13.dspec(),
            fua: d12.fua(),
            lr: d12.lr(),
            lbtu: u64::from(cmd.cdw3.get()) | u64::from(cmd.cdw2.get() & 0xFFFF) << 32,
            lbtl: cmd.cdw14.get(),
            lbat: d15.lbat(),
            lbatm: d15.lbatm(),
        }
    }

    /// Bytes of its source ranges; 0 for a reserved format.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        CopySource::bytes(self.desfmt).map_or(0, |each| each as u64 * u64::from(self.nr))
    }
}

impl From<Copy> for Command {
    fn from(c: Copy) -> Self {
        let (sdlba, lbtu) = (c.sdlba.to_le_bytes(), c.lbtu.to_le_bytes());
        Self {
            cdw2: U32::from_bytes([lbtu[4], lbtu[5], 0, 0]),
            cdw3: U32::from_bytes([lbtu[0], lbtu[1], lbtu[2], lbtu[3]]),
            cdw10: U32::from_bytes([sdlba[0], sdlba[1], sdlba[2], sdlba[3]]),
            cdw11: U32::from_bytes([sdlba[4], sdlba[5], sdlba[6], sdlba[7]]),
            cdw12: CopyCdw12::new()
                .with_nr_z((c.nr.clamp(1, 256) - 1) as u8)
                .with_desfmt(c.desfmt & 0xF)
                .with_prinfor(c.prinfor.into_bits() & 0xF)
                .with_cetype(c.cetype & 0xF)
                .with_dtype(c.dtype & 0xF)
                .with_stcw(c.stcw)
                .with_stcr(c.stcr)
                .with_prinfow(c.prinfow.into_bits() & 0xF)
                .with_fua(c.fua)
                .with_lr(c.lr)
                .0,
            cdw13: CopyCdw13::new().with_dspec(c.dspec).0,
            cdw14: U32::new(c.lbtl),
            cdw15: CopyCdw15::new().with_lbat(c.lbat).with_lbatm(c.lbatm).0,
            ..Self::new(IoOpcode::COPY.0, c.nsid)
        }
    }
}
