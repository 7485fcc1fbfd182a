//! Scatter gather lists (Base 4.3.2).

use crate::memory::GuestMemory;
use crate::segment::{DataSegment, push};
use nvme::command::{SglSubtype, SglType};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{SglDescriptor, Status};

/// Descriptors of one list. A list with more is refused, so that a list that leads to itself ends.
pub const MAX_SGL_DESCRIPTORS: u32 = 2048;
/// Descriptors of a list that are read at once.
const CHUNK_DESCRIPTORS: u32 = 32;
/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u32 = size_of::<SglDescriptor>() as u32;

/// A walk over a list.
struct Walk<'a> {
    segments: &'a mut Vec<DataSegment>,
    /// Bytes that the list still has to describe.
    left: u32,
    /// Whether the list describes a buffer that the host reads from later. Only there a bit bucket has bytes.
    to_host: bool,
    /// The status of a list that is too short or too long.
    wrong_length: Status,
}

impl Walk<'_> {
    /// Takes a descriptor of data.
    fn take(&mut self, descriptor: SglDescriptor) -> Result<(), Status> {
        let addr = match (descriptor.id.kind(), descriptor.id.subtype()) {
            (SglType::DATA_BLOCK, SglSubtype::ADDRESS) => Some(descriptor.addr.get()),
            (SglType::BIT_BUCKET, SglSubtype::ADDRESS) if self.to_host => None,
            (SglType::BIT_BUCKET, SglSubtype::ADDRESS) => return Ok(()),
            _ => return Err(Status::SGL_TYPE_INVALID.with_dnr()),
        };
        let len = descriptor.length.get();
        self.left = self.left.checked_sub(len).ok_or(self.wrong_length)?;
        push(self.segments, addr, len);
        Ok(())
    }

    /// Takes the segment of a list that a descriptor points at. Returns the descriptor of the next one.
    fn take_segment<M: GuestMemory>(
        &mut self,
        memory: &M,
        pointer: SglDescriptor,
    ) -> Result<Option<SglDescriptor>, Status> {
        let is_last = pointer.id.kind() == SglType::LAST_SEGMENT;
        let count = pointer.length.get() / DESCRIPTOR_BYTES;
        for start in (0..count).step_by(CHUNK_DESCRIPTORS as usize) {
            let mut chunk = [SglDescriptor::default(); CHUNK_DESCRIPTORS as usize];
            let chunk = &mut chunk[..CHUNK_DESCRIPTORS.min(count - start) as usize];
            // The range is checked as a whole; a wrap is unmapped.
            let at = pointer.addr.get().wrapping_add(u64::from(start * DESCRIPTOR_BYTES));
            memory.read(at, chunk.as_mut_bytes()).map_err(|_| Status::DATA_TRANSFER_ERROR.with_dnr())?;
            for (descriptor, index) in chunk.iter().zip(start..) {
                let is_pointer = is_pointer(descriptor);
                match index + 1 == count {
                    true if !is_last && is_pointer => return Ok(Some(*descriptor)),
                    // A last segment that points on, or another one that does not.
                    _ if is_pointer && is_last => return Err(Status::INVALID_SGL_SEGMENT.with_dnr()),
                    true if !is_last => return Err(Status::INVALID_SGL_SEGMENT.with_dnr()),
                    _ if is_pointer => return Err(Status::INVALID_SGL_COUNT.with_dnr()),
                    _ => self.take(*descriptor)?,
                }
            }
        }
        Ok(None)
    }
}

/// Whether a descriptor points at a segment of the list.
fn is_pointer(descriptor: &SglDescriptor) -> bool {
    [SglType::SEGMENT, SglType::LAST_SEGMENT].contains(&descriptor.id.kind())
}

/// Whether it points at a segment as the specification allows: descriptors without a rest, at a multiple of 8.
fn check_pointer(pointer: &SglDescriptor) -> Result<(), Status> {
    let length = pointer.length.get();
    let is_valid =
        length != 0 && length.is_multiple_of(DESCRIPTOR_BYTES) && pointer.addr.get().is_multiple_of(8);
    match pointer.id.subtype() {
        SglSubtype::ADDRESS if is_valid => Ok(()),
        SglSubtype::ADDRESS => Err(Status::INVALID_SGL_SEGMENT.with_dnr()),
        _ => Err(Status::SGL_TYPE_INVALID.with_dnr()),
    }
}

/// The segments of `len` bytes of data that a list describes. They are added to `segments`. `to_host` says which way the data go;
/// `wrong_length` is the status of a list with another length.
///
/// # Errors
/// The specified status of a descriptor or list that is not valid; Data Transfer Error if a part of the list is not mapped. Whether
/// the data is mapped is not checked here.
pub(crate) fn map<M: GuestMemory>(
    memory: &M,
    first: SglDescriptor,
    len: u32,
    to_host: bool,
    wrong_length: Status,
    segments: &mut Vec<DataSegment>,
) -> Result<(), Status> {
    let mut walk = Walk { segments, left: len, to_host, wrong_length: wrong_length.with_dnr() };
    let mut next = Some(first).filter(is_pointer);
    if next.is_none() {
        walk.take(first)?;
    }
    let mut descriptors = 0u32;
    while let Some(pointer) = next {
        check_pointer(&pointer)?;
        descriptors = descriptors.saturating_add(pointer.length.get() / DESCRIPTOR_BYTES);
        if descriptors > MAX_SGL_DESCRIPTORS {
            return Err(Status::INVALID_SGL_COUNT.with_dnr());
        }
        next = walk.take_segment(memory, pointer)?;
    }
    if walk.left == 0 { Ok(()) } else { Err(walk.wrong_length) }
}

/// The one descriptor of a metadata pointer (PSDT 10b), at a multiple of 8.
///
/// # Errors
/// Invalid SGL Segment Descriptor, or Data Transfer Error if it is not mapped.
pub(crate) fn read_descriptor<M: GuestMemory>(memory: &M, at: u64) -> Result<SglDescriptor, Status> {
    if !at.is_multiple_of(8) {
        return Err(Status::INVALID_SGL_SEGMENT.with_dnr());
    }
    let mut bytes = [0; DESCRIPTOR_BYTES as usize];
    memory.read(at, &mut bytes).map_err(|_| Status::DATA_TRANSFER_ERROR.with_dnr())?;
    Ok(SglDescriptor::read_from_bytes(&bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Ram;

    fn segments(memory: &Ram, first: SglDescriptor, len: u32) -> Result<Vec<(Option<u64>, u32)>, Status> {
        let mut found = Vec::new();
        map(memory, first, len, true, Status::DATA_SGL_LENGTH_INVALID, &mut found)?;
        Ok(found.iter().map(|segment| (segment.addr, segment.len)).collect())
    }

    fn write(memory: &Ram, at: u64, list: &[SglDescriptor]) {
        memory.write(at, list.as_bytes()).unwrap();
    }

    fn block(addr: u64, length: u32) -> SglDescriptor {
        SglDescriptor::data_block(addr, length)
    }

    fn pointer(kind: SglType, addr: u64, count: u32) -> SglDescriptor {
        SglDescriptor::list(kind, addr, count * DESCRIPTOR_BYTES)
    }

    #[test]
    fn lists_of_one_and_more_segments() {
        let memory = Ram::whole(0x10_0000);
        assert_eq!(segments(&memory, block(3, 77), 77), Ok(vec![(Some(3), 77)]));
        let bucket = SglDescriptor::list(SglType::BIT_BUCKET, 0, 10);
        write(&memory, 0x1008, &[block(0x2000, 100), bucket, pointer(SglType::LAST_SEGMENT, 0x3000, 2)]);
        write(&memory, 0x3000, &[block(0x4000, 50), block(0x8000, 40)]);
        let first = pointer(SglType::SEGMENT, 0x1008, 3);
        let all = vec![(Some(0x2000), 100), (None, 10), (Some(0x4000), 50), (Some(0x8000), 40)];
        assert_eq!(segments(&memory, first, 200), Ok(all));
        let wrong = Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        assert_eq!(segments(&memory, first, 199), wrong);
        assert_eq!(segments(&memory, first, 201), wrong);
        let mut found = Vec::new();
        let status = Status::METADATA_SGL_LENGTH_INVALID;
        assert_eq!(
            map(&memory, first, 190, false, status, &mut found),
            Ok(()),
            "a bucket has no bytes to give"
        );
    }

    #[test]
    fn descriptors_out_of_place_are_refused() {
        let memory = Ram::whole(0x10_0000);
        let last = |count| pointer(SglType::LAST_SEGMENT, 0x1000, count);
        let next = |count| pointer(SglType::SEGMENT, 0x1000, count);
        let mut keyed = block(0x2000, 100);
        keyed.id.set_kind(SglType::KEYED_DATA_BLOCK);
        let mut offset = block(0x2000, 100);
        offset.id.set_subtype(SglSubtype::OFFSET);
        let (segment, count, kind) =
            (Status::INVALID_SGL_SEGMENT, Status::INVALID_SGL_COUNT, Status::SGL_TYPE_INVALID);
        let mut odd = last(1);
        odd.length.set(24);
        let cases: [(&[SglDescriptor], SglDescriptor, Status); 10] = [
            (&[], keyed, kind),
            (&[], offset, kind),
            (&[block(0, 50), keyed], last(2), kind),
            (&[block(0, 50), last(1)], last(2), segment),
            (&[last(1), block(0, 100)], last(2), segment),
            (&[block(0, 50), block(50, 50)], next(2), segment),
            (&[last(1), last(1)], next(2), count),
            (&[], last(0), segment),
            (&[], odd, segment),
            (&[], pointer(SglType::LAST_SEGMENT, 0x1004, 1), segment),
        ];
        for (list, first, status) in cases {
            write(&memory, 0x1000, list);
            assert_eq!(segments(&memory, first, 100), Err(status.with_dnr()), "{list:?} {first:?}");
        }
        let unmapped = Err(Status::DATA_TRANSFER_ERROR.with_dnr());
        assert_eq!(segments(&memory, pointer(SglType::LAST_SEGMENT, u64::MAX - 15, 1), 1), unmapped);
        assert_eq!(segments(&memory, pointer(SglType::LAST_SEGMENT, u64::MAX - 7, 1), 1), unmapped);
    }

    #[test]
    fn a_list_that_leads_to_itself_ends() {
        let memory = Ram::whole(0x10_0000);
        let itself = pointer(SglType::SEGMENT, 0x1000, 1);
        write(&memory, 0x1000, &[itself]);
        assert_eq!(segments(&memory, itself, 1), Err(Status::INVALID_SGL_COUNT.with_dnr()));
        assert!(memory.reads() <= MAX_SGL_DESCRIPTORS as usize);
        let long = SglDescriptor::list(SglType::SEGMENT, 0x1000, 0xFFFF_FFF0);
        assert_eq!(segments(&memory, long, 1), Err(Status::INVALID_SGL_COUNT.with_dnr()));
    }
}
