//! A command's data in guest memory.

use crate::memory::GuestMemory;
use crate::segment::{DataSegment, push};
use crate::{prp, sgl};
use nvme::{Command, SeparateBlock, Status, Transfer};

/// The segments of a command's data (Base 4.1.1, "PRP or SGL for Data Transfer"). Memory pages have `page` bytes. A
/// command without data has none.
///
/// # Errors
/// Invalid Field in Command for more data than 4 GiB, or a reserved PSDT; the statuses of PRPs and SGLs.
pub(crate) fn map<M: GuestMemory>(
    memory: &M,
    page: u64,
    command: &Command,
    transfer: Transfer,
    segments: &mut Vec<DataSegment>,
) -> Result<(), Status> {
    let len = u32::try_from(transfer.bytes()).map_err(|_| Status::INVALID_FIELD.with_dnr())?;
    if len == 0 {
        return Ok(());
    }
    let to_host = matches!(transfer, Transfer::ToHost(_));
    match command.flags.psdt() {
        0 => prp::map(memory, page, command.dptr.prps(), len, segments),
        1 | 2 => sgl::map(memory, command.dptr, len, to_host, Status::DATA_SGL_LENGTH_INVALID, segments),
        _ => Err(Status::INVALID_FIELD.with_dnr()),
    }
}

/// The segments of a command's separate metadata (Base 4.1.1, "Metadata Pointer"): contiguous, or with PSDT 10b an SGL that one
/// descriptor begins.
///
/// # Errors
/// As of [`map`]. Invalid Field in Command for a pointer of a PRP command that is no multiple of 4.
pub(crate) fn map_metadata<M: GuestMemory>(
    memory: &M,
    command: &Command,
    transfer: Transfer,
    segments: &mut Vec<DataSegment>,
) -> Result<(), Status> {
    let len = u32::try_from(transfer.bytes()).map_err(|_| Status::INVALID_FIELD.with_dnr())?;
    let at = command.mptr.get();
    let to_host = matches!(transfer, Transfer::ToHost(_));
    match command.flags.psdt() {
        _ if len == 0 => {}
        0 if !at.is_multiple_of(4) => return Err(Status::INVALID_FIELD.with_dnr()),
        0 | 1 => push(segments, Some(at), len),
        2 => {
            let first = sgl::read_descriptor(memory, at)?;
            return sgl::map(memory, first, len, to_host, Status::METADATA_SGL_LENGTH_INVALID, segments);
        }
        _ => return Err(Status::INVALID_FIELD.with_dnr()),
    }
    Ok(())
}

/// The parts of segments that hold `len` bytes from byte `start` of the data.
fn parts(segments: &[DataSegment], start: usize, len: usize) -> impl Iterator<Item = (Option<u64>, usize)> {
    let (mut skip, mut left) = (start, len);
    segments.iter().filter_map(move |segment| {
        let size = segment.len as usize;
        let from = skip.min(size);
        skip -= from;
        let bytes = left.min(size - from);
        left -= bytes;
        // A range that wraps is unmapped.
        (bytes > 0).then(|| (segment.addr.map(|addr| addr.wrapping_add(from as u64)), bytes))
    })
}

/// Copies a command's data from the guest, each byte once. Bytes beyond the segments stay unchanged.
///
/// # Errors
/// Data Transfer Error if a segment is not mapped.
pub(crate) fn read<M: GuestMemory>(
    memory: &M,
    segments: &[DataSegment],
    mut bytes: &mut [u8],
) -> Result<(), Status> {
    for (addr, len) in parts(segments, 0, bytes.len()) {
        let (part, rest) = bytes.split_at_mut(len);
        if let Some(addr) = addr {
            memory.read(addr, part).map_err(|_| Status::DATA_TRANSFER_ERROR.with_dnr())?;
        }
        bytes = rest;
    }
    Ok(())
}

/// Copies bytes to the guest, as a command's data from byte `start` on. Bytes beyond the segments go nowhere.
///
/// # Errors
/// Data Transfer Error if a segment is not mapped.
pub(crate) fn write<M: GuestMemory>(
    memory: &M,
    segments: &[DataSegment],
    start: usize,
    mut bytes: &[u8],
) -> Result<(), Status> {
    for (addr, len) in parts(segments, start, bytes.len()) {
        let (part, rest) = bytes.split_at(len);
        if let Some(addr) = addr {
            memory.write(addr, part).map_err(|_| Status::DATA_TRANSFER_ERROR.with_dnr())?;
        }
        bytes = rest;
    }
    Ok(())
}

/// Room for the data and for the metadata of whole blocks that have this many bytes together.
pub(crate) fn room(block: SeparateBlock, bytes: usize) -> [Vec<u8>; 2] {
    block.split(Transfer::ToHost(bytes as u64)).map(|part| vec![0; part.bytes() as usize])
}

/// Puts the metadata of blocks behind their data. Bytes without a block stay unchanged.
pub(crate) fn join(block: SeparateBlock, [data, metadata]: [&[u8]; 2], bytes: &mut [u8]) {
    let [size, extra] = [block.data(), block.metadata()].map(|each| each as usize);
    let parts = data.chunks_exact(size).zip(metadata.chunks_exact(extra));
    for (whole, (data, metadata)) in bytes.chunks_exact_mut(size + extra).zip(parts) {
        let (data_place, metadata_place) = whole.split_at_mut(size);
        data_place.copy_from_slice(data);
        metadata_place.copy_from_slice(metadata);
    }
}

/// The data and the metadata of blocks that lie behind each other. Bytes after the last whole block are left out.
pub(crate) fn split(block: SeparateBlock, bytes: &[u8]) -> [Vec<u8>; 2] {
    let [mut data, mut metadata] = room(block, bytes.len());
    let [size, extra] = [block.data(), block.metadata()].map(|each| each as usize);
    let parts = data.chunks_exact_mut(size).zip(metadata.chunks_exact_mut(extra));
    for (whole, (data, metadata)) in bytes.chunks_exact(size + extra).zip(parts) {
        let (data_place, metadata_place) = whole.split_at(size);
        data.copy_from_slice(data_place);
        metadata.copy_from_slice(metadata_place);
    }
    [data, metadata]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::Ram;
    use nvme::SglDescriptor;
    use nvme::command::SglType;
    use nvme::zerocopy::IntoBytes;

    #[test]
    fn data_goes_through_segments_in_parts() {
        let memory = Ram::new(std::slice::from_ref(&(0x1000..0x3000)));
        let segments = [
            DataSegment { addr: Some(0x1FFF), len: 3 },
            DataSegment { addr: None, len: 2 },
            DataSegment { addr: Some(0x1000), len: 4 },
        ];
        write(&memory, &segments, 0, &[1, 2]).unwrap();
        write(&memory, &segments, 2, &[3, 4, 5, 6, 7]).unwrap();
        let mut bytes = [0; 9];
        read(&memory, &segments, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 0, 0, 6, 7, 0, 0]);
        let error = Err(Status::DATA_TRANSFER_ERROR.with_dnr());
        let outside = [DataSegment { addr: Some(0x2FFF), len: 2 }];
        assert_eq!(read(&memory, &outside, &mut [0; 2]), error);
        assert_eq!(write(&memory, &outside, 0, &[0; 2]), error);
        assert_eq!(write(&memory, &[DataSegment { addr: Some(u64::MAX), len: 9 }], 4, &[0; 2]), error);
    }

    #[test]
    fn blocks_are_split_and_joined() {
        let block = SeparateBlock::new(4, 2).unwrap();
        let whole = *b"dataMMDATAmmxxxxx";
        let [data, metadata] = split(block, &whole);
        assert_eq!((&data[..], &metadata[..]), (&b"dataDATA"[..], &b"MMmm"[..]));
        let mut joined = *b"............yyyyy";
        join(block, [&data, &metadata], &mut joined);
        assert_eq!(&joined, b"dataMMDATAmmyyyyy");
        assert_eq!(block.split(Transfer::ToController(12)), [8, 4].map(Transfer::ToController));
        assert_eq!(block.split(Transfer::ToHost(5)), [Transfer::None; 2]);
        assert!(SeparateBlock::new(0, 8).is_none() && SeparateBlock::new(512, 0).is_none());
    }

    #[test]
    fn metadata_has_a_pointer_of_its_own() {
        let memory = Ram::whole(0x1_0000);
        let mut command = Command::read(1, 0, 8);
        let mut found = |psdt, at, len| {
            command.flags.set_psdt(psdt);
            command.mptr.set(at);
            let mut segments = Vec::new();
            map_metadata(&memory, &command, Transfer::ToHost(len), &mut segments).map(|()| segments)
        };
        let flat = |addr, len| Ok(vec![DataSegment { addr: Some(addr), len }]);
        assert_eq!(found(0, 0x104, 64), flat(0x104, 64));
        assert_eq!(found(0, 0x102, 64), Err(Status::INVALID_FIELD.with_dnr()));
        assert_eq!(found(1, 0x103, 64), flat(0x103, 64));
        assert_eq!(found(0, u64::MAX - 3, 64), flat(u64::MAX - 3, 64), "a wrap is refused with the data");
        memory.write(0x108, SglDescriptor::data_block(0x500, 64).as_bytes()).unwrap();
        assert_eq!(found(2, 0x108, 64), flat(0x500, 64));
        assert_eq!(found(2, 0x108, 65), Err(Status::METADATA_SGL_LENGTH_INVALID.with_dnr()));
        assert_eq!(found(2, 0x104, 64), Err(Status::INVALID_SGL_SEGMENT.with_dnr()));
        memory.write(0x108, SglDescriptor::list(SglType::SEGMENT, 8, 16).as_bytes()).unwrap();
        assert!(found(2, 0x108, 64).is_err());
        assert_eq!(found(3, 0x108, 0), Ok(vec![]));
        assert_eq!(found(3, 0x108, 8), Err(Status::INVALID_FIELD.with_dnr()));
    }
}
