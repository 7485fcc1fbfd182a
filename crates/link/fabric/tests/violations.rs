//! Each violation has the Fatal Error Status that the specification names.

use fabric::pdu::*;
use fabric::{Error, host, target};
use nvme::fabrics::{Connect, ConnectAttributes, FabricsCommand};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, Completion, SglDescriptor, Status, U16, U32};

fn take(target: &mut target::Connection) -> Vec<u8> {
    let bytes: Vec<u8> = target.transmit().flatten().copied().collect();
    target.sent(bytes.len());
    bytes
}

fn ch(kind: PduType, data: u32) -> CommonHeader {
    let hlen = kind.hlen().unwrap();
    CommonHeader {
        pdu_type: kind,
        flags: Flags::new(),
        hlen,
        pdo: if data > 0 { hlen } else { 0 },
        plen: U32::new(u32::from(hlen) + data),
    }
}

fn ic_req() -> IcReq {
    IcReq {
        ch: ch(PduType::IC_REQ, 0),
        pfv: U16::ZERO,
        hpda_z: 0,
        dgst: DigestTypes::new(),
        maxr2t_z: U32::ZERO,
        rsvd16: [0; 112],
    }
}

fn capsule(sqe: Command) -> CapsuleCmd {
    CapsuleCmd { ch: ch(PduType::CAPSULE_CMD, 0), ccsqe: sqe }
}

fn h2c(ttag: u16, cccid: u16, datao: u32, datal: u32, last: bool) -> DataHeader {
    let mut ch = ch(PduType::H2C_DATA, datal);
    ch.flags.set_last_pdu(last);
    DataHeader {
        ch,
        cccid: U16::new(cccid),
        ttag: U16::new(ttag),
        datao: U32::new(datao),
        datal: U32::new(datal),
        rsvd20: [0; 4],
    }
}

fn ready() -> target::Connection {
    let mut target = target::Connection::new(target::Config { max_h2c_data: 4096, ..Default::default() });
    target.receive(ic_req().as_bytes()).unwrap();
    assert_eq!(take(&mut target).len(), 128);
    target
}

/// A target with an R2T for 8 KiB outstanding: command 5, transfer tag 0.
fn asked() -> target::Connection {
    let mut target = ready();
    let sqe = Command::write(1, 0, 16).with_cid(5).with_dptr(SglDescriptor::transport(8192));
    target.receive(capsule(sqe).as_bytes()).unwrap();
    let r2t = R2t::read_from_bytes(&take(&mut target)).unwrap();
    assert_eq!((r2t.cccid.get(), r2t.ttag.get(), r2t.r2to.get(), r2t.r2tl.get()), (5, 0, 0, 8192));
    target
}

#[track_caller]
fn dies(mut target: target::Connection, bytes: &[u8], fes: Fes, fei: u32) {
    match target.receive(bytes) {
        Err(Error::Violation(fault)) => assert_eq!((fault.fes, fault.fei), (fes, fei), "{fault}"),
        other => panic!("{other:?}"),
    }
    let sent = take(&mut target);
    let (term, evidence) = TermReq::read_from_prefix(&sent).unwrap();
    assert_eq!(term.ch.pdu_type, PduType::C2H_TERM_REQ);
    assert_eq!((term.fes, term.fei.get()), (fes, fei));
    assert_eq!(term.ch.plen.get() as usize, sent.len());
    assert!(evidence.len() <= 128 && bytes.starts_with(evidence));
    assert_eq!(target.receive(&[0]), Err(Error::Ended));
}

#[test]
fn headers() {
    let wrong = |change: fn(&mut CommonHeader)| {
        let mut pdu = capsule(Command::flush(1));
        change(&mut pdu.ch);
        pdu
    };
    dies(ready(), wrong(|ch| ch.pdu_type = PduType(0x33)).as_bytes(), Fes::INVALID_HEADER_FIELD, 0);
    dies(ready(), wrong(|ch| ch.pdu_type = PduType::R2T).as_bytes(), Fes::SEQUENCE, 0);
    dies(ready(), wrong(|ch| ch.flags.set_hdgstf(true)).as_bytes(), Fes::INVALID_HEADER_FIELD, 1);
    dies(ready(), wrong(|ch| ch.hlen = 24).as_bytes(), Fes::INVALID_HEADER_FIELD, 2);
    dies(ready(), wrong(|ch| ch.hlen = 73).as_bytes(), Fes::INVALID_HEADER_FIELD, 2);
    dies(ready(), wrong(|ch| ch.pdu_type = PduType::C2H_DATA).as_bytes(), Fes::SEQUENCE, 0);
    dies(ready(), wrong(|ch| ch.pdu_type = PduType::CAPSULE_RESP).as_bytes(), Fes::SEQUENCE, 0);
    dies(ready(), wrong(|ch| ch.pdu_type = PduType::IC_RESP).as_bytes(), Fes::SEQUENCE, 0);
    let in_capsule = |pdo: u8, plen: u32, ddgst: bool| {
        let mut pdu = capsule(Command::write(1, 0, 1).with_dptr(SglDescriptor::in_capsule(512)));
        pdu.ch.flags.set_ddgstf(ddgst);
        (pdu.ch.pdo, pdu.ch.plen) = (pdo, U32::new(plen));
        pdu
    };
    // Data that starts within the header, at no dword, that has a digest unasked, or is none at all.
    dies(ready(), in_capsule(71, 72 + 512, false).as_bytes(), Fes::INVALID_HEADER_FIELD, 3);
    dies(ready(), in_capsule(73, 73 + 512, false).as_bytes(), Fes::INVALID_HEADER_FIELD, 3);
    dies(ready(), in_capsule(72, 72 + 512, true).as_bytes(), Fes::INVALID_HEADER_FIELD, 1);
    dies(ready(), in_capsule(76, 76, false).as_bytes(), Fes::INVALID_HEADER_FIELD, 4);
    dies(ready(), wrong(|ch| ch.plen.set(80)).as_bytes(), Fes::INVALID_HEADER_FIELD, 3);
    dies(ready(), wrong(|ch| ch.plen.set(8)).as_bytes(), Fes::INVALID_HEADER_FIELD, 3);
    dies(ready(), ic_req().as_bytes(), Fes::SEQUENCE, 0);
    let new = target::Connection::new(target::Config::default());
    dies(new, capsule(Command::flush(1)).as_bytes(), Fes::SEQUENCE, 0);
}

#[test]
fn initialization() {
    let new = || target::Connection::new(target::Config::default());
    let mut req = ic_req();
    req.pfv.set(1);
    dies(new(), req.as_bytes(), Fes::UNSUPPORTED_PARAMETER, 8);
    let mut req = ic_req();
    req.hpda_z = 32;
    dies(new(), req.as_bytes(), Fes::INVALID_HEADER_FIELD, 10);
    let mut req = ic_req();
    req.ch.plen.set(127);
    dies(new(), req.as_bytes(), Fes::INVALID_HEADER_FIELD, 4);
    let mut req = ic_req();
    req.ch.hlen = 24;
    dies(new(), req.as_bytes(), Fes::INVALID_HEADER_FIELD, 2);
}

#[test]
fn data() {
    let with_data = |header: DataHeader| {
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(bytes.len() + header.ch.plen.get() as usize - 24, 7);
        bytes
    };
    dies(asked(), &with_data(h2c(3, 5, 0, 4096, false)), Fes::INVALID_HEADER_FIELD, 10);
    dies(asked(), &with_data(h2c(0, 6, 0, 4096, false)), Fes::INVALID_HEADER_FIELD, 8);
    dies(asked(), &with_data(h2c(0, 5, 4096, 4096, true)), Fes::DATA_OUT_OF_RANGE, 0);
    dies(asked(), &with_data(h2c(0, 5, 0, 8192, true)), Fes::LIMIT_EXCEEDED, 0);
    dies(asked(), &with_data(h2c(0, 5, 0, 4096, true)), Fes::INVALID_HEADER_FIELD, 1);
    let mut lies = h2c(0, 5, 0, 4096, false);
    lies.datal.set(4092);
    dies(asked(), &with_data(lies), Fes::INVALID_HEADER_FIELD, 16);
    dies(ready(), &with_data(h2c(0, 0, 0, 4, true)), Fes::INVALID_HEADER_FIELD, 10);

    let mut target = asked();
    target.receive(&with_data(h2c(0, 5, 0, 4096, false))).unwrap();
    target.receive(&with_data(h2c(0, 5, 4096, 4096, true))).unwrap();
    let incoming = target.next().unwrap();
    assert_eq!(target.data(incoming.tag).unwrap(), [7; 8192]);
}

/// A target whose host serves two R2Ts at a time, and a command of 20 KiB: two R2Ts of 8 KiB are outstanding.
fn asked_twice() -> target::Connection {
    let config = target::Config { max_h2c_data: 4096, r2t_bytes: 8192, ..Default::default() };
    let mut target = target::Connection::new(config);
    let mut req = ic_req();
    req.maxr2t_z.set(1);
    target.receive(req.as_bytes()).unwrap();
    take(&mut target);
    let sqe = Command::write(1, 0, 40).with_cid(5).with_dptr(SglDescriptor::transport(20480));
    target.receive(capsule(sqe).as_bytes()).unwrap();
    assert_eq!(r2ts(&mut target), [(0, 0, 8192), (1, 8192, 8192)]);
    target
}

fn r2ts(target: &mut target::Connection) -> Vec<(u16, u32, u32)> {
    let read = |bytes: &[u8]| {
        let r2t = R2t::read_from_bytes(bytes).unwrap();
        assert_eq!((r2t.ch.pdu_type, r2t.cccid.get()), (PduType::R2T, 5));
        (r2t.ttag.get(), r2t.r2to.get(), r2t.r2tl.get())
    };
    take(target).chunks(24).map(read).collect()
}

#[test]
fn several_r2ts_of_a_command_are_served_in_any_order() {
    let part = |ttag, datao: u32, last| {
        let mut bytes = h2c(ttag, 5, datao, 4096, last).as_bytes().to_vec();
        bytes.resize(24 + 4096, (datao / 4096) as u8);
        bytes
    };
    let mut target = asked_twice();
    // The second before the first, the two in turn.
    target.receive(&part(1, 8192, false)).unwrap();
    target.receive(&part(0, 0, false)).unwrap();
    assert!(take(&mut target).is_empty());
    target.receive(&part(1, 12288, true)).unwrap();
    // One is served, so the rest is asked for.
    assert_eq!(r2ts(&mut target), [(1, 16384, 4096)]);
    target.receive(&part(1, 16384, true)).unwrap();
    assert!(target.next().is_none() && target.is_owed());
    target.receive(&part(0, 4096, true)).unwrap();
    let incoming = target.next().unwrap();
    let data = target.data(incoming.tag).unwrap();
    assert!(data.chunks(4096).enumerate().all(|(i, part)| part.iter().all(|byte| usize::from(*byte) == i)));
    assert!(!target.is_owed());

    // Within an R2T the order counts, and no PDU spans two of them.
    dies(asked_twice(), &part(0, 4096, true), Fes::DATA_OUT_OF_RANGE, 0);
    dies(asked_twice(), &part(1, 0, false), Fes::DATA_OUT_OF_RANGE, 0);
    let mut target = asked_twice();
    target.receive(&part(0, 0, false)).unwrap();
    target.receive(&part(0, 4096, true)).unwrap();
    r2ts(&mut target);
    dies(target, &part(0, 8192, false), Fes::DATA_OUT_OF_RANGE, 0);
}

#[test]
fn a_host_that_allows_one_r2t_is_asked_for_everything_at_once() {
    let config = target::Config { r2t_bytes: 4096, ..Default::default() };
    let mut target = target::Connection::new(config);
    target.receive(ic_req().as_bytes()).unwrap();
    take(&mut target);
    let sqe = Command::write(1, 0, 40).with_cid(5).with_dptr(SglDescriptor::transport(20480));
    target.receive(capsule(sqe).as_bytes()).unwrap();
    assert_eq!(r2ts(&mut target), [(0, 0, 20480)]);
}

#[test]
fn a_termination_request_ends_the_connection_without_an_answer() {
    let mut term =
        TermReq { ch: ch(PduType::H2C_TERM_REQ, 0), fes: Fes::SEQUENCE, fei: U32::new(7), rsvd14: [0; 10] };
    let mut target = ready();
    let ended = target.receive(term.as_bytes());
    assert_eq!(ended, Err(Error::Terminated { fes: Fes::SEQUENCE, fei: 7 }));
    assert!(take(&mut target).is_empty() && target.has_ended());
    // More than 128 bytes of evidence.
    term.ch.plen.set(153);
    dies(ready(), term.as_bytes(), Fes::INVALID_HEADER_FIELD, 4);
}

#[test]
fn what_the_host_owes_is_known() {
    let mut target = ready();
    assert!(!target.is_owed());
    let bytes = capsule(Command::flush(1));
    target.receive(&bytes.as_bytes()[..1]).unwrap();
    let part = target.owed();
    assert!(part.0.is_some() && part.1.is_none());
    target.receive(&bytes.as_bytes()[1..70]).unwrap();
    assert_eq!(target.owed(), part, "the same PDU");
    target.receive(&bytes.as_bytes()[70..]).unwrap();
    assert_eq!(target.owed(), (None, None));
    let target = asked();
    assert!(target.owed().0.is_none() && target.owed().1.is_some());
}

#[test]
fn a_queue_cannot_be_overrun() {
    let mut target = ready();
    target.receive(capsule(Command::flush(1)).as_bytes()).unwrap();
    dies(target, capsule(Command::flush(1)).as_bytes(), Fes::SEQUENCE, 0);
}

#[test]
fn in_capsule_data_has_a_limit() {
    let mut pdu = capsule(Command::write(1, 0, 32).with_dptr(SglDescriptor::in_capsule(16384)));
    pdu.ch = ch(PduType::CAPSULE_CMD, 16384);
    dies(ready(), pdu.as_bytes(), Fes::LIMIT_EXCEEDED, 0);
}

#[test]
fn header_digests() {
    let mut target = target::Connection::new(target::Config::default());
    let mut req = ic_req();
    req.dgst.set_hdgst(true);
    target.receive(req.as_bytes()).unwrap();
    assert!(IcResp::read_from_bytes(&take(&mut target)).unwrap().dgst.hdgst());
    let mut pdu = capsule(Command::flush(1));
    pdu.ch.flags.set_hdgstf(true);
    pdu.ch.plen.set(76);
    let mut bytes = pdu.as_bytes().to_vec();
    bytes.extend([1, 2, 3, 4]);
    let Err(Error::Violation(fault)) = target.receive(&bytes) else { panic!("accepted") };
    assert_eq!((fault.fes, fault.fei), (Fes::HEADER_DIGEST, 0x0403_0201));
}

#[test]
fn wrong_data_pointers_fail_the_command_only() {
    let read = |dptr: SglDescriptor| Command::read(1, 0, 1).with_cid(9).with_dptr(dptr);
    let mut keyed = SglDescriptor::transport(512);
    keyed.id = nvme::command::SglId::new().with_kind(nvme::command::SglType::KEYED_DATA_BLOCK);
    let mut prp = read(SglDescriptor::transport(512));
    prp.flags.set_psdt(0);
    for (sqe, status) in [
        (read(SglDescriptor::in_capsule(512)), Status::SGL_TYPE_INVALID),
        (read(keyed), Status::SGL_TYPE_INVALID),
        (prp, Status::INVALID_FIELD),
        (read(SglDescriptor::transport(u32::MAX)), Status::INVALID_FIELD),
        (
            Command::write(1, 0, 1).with_cid(9).with_dptr(SglDescriptor::in_capsule(512)),
            Status::DATA_SGL_LENGTH_INVALID,
        ),
    ] {
        let mut target = ready();
        target.receive(capsule(sqe).as_bytes()).unwrap();
        assert!(target.next().is_none());
        let resp = CapsuleResp::read_from_bytes(&take(&mut target)).unwrap();
        assert_eq!(resp.rccqe.cid.get(), 9);
        assert!(resp.rccqe.status().is(status), "{:?}", resp.rccqe.status());
        assert_eq!(target.in_flight(), 0);
    }
}

#[test]
fn data_may_start_anywhere_in_a_capsule() {
    let capsule_with = |offset: u64, length: u32| {
        let mut sgl = SglDescriptor::in_capsule(length);
        sgl.addr.set(offset);
        let mut pdu = capsule(Command::write(1, 0, 1).with_cid(9).with_dptr(sgl));
        pdu.ch = ch(PduType::CAPSULE_CMD, 2048);
        let mut bytes = pdu.as_bytes().to_vec();
        bytes.extend((0..2048).map(|i| (i / 512) as u8));
        bytes
    };
    for (offset, length) in [(0, 2048), (512, 512), (1536, 512), (0, 512), (1024, 1024)] {
        let mut target = ready();
        target.receive(&capsule_with(offset, length)).unwrap();
        let incoming = target.next().unwrap();
        let expected: Vec<u8> = (offset..offset + u64::from(length)).map(|i| (i / 512) as u8).collect();
        assert!(target.data(incoming.tag).unwrap() == expected, "{length} bytes from {offset}");
        target.respond(incoming.tag, Completion::success(0, 0), 0).unwrap();
        take(&mut target);
        assert_eq!(target.in_flight(), 0);
    }
    for (offset, length, status) in [
        (1536, 1024, Status::DATA_SGL_LENGTH_INVALID),
        (0, 4096, Status::DATA_SGL_LENGTH_INVALID),
        (4096, 512, Status::SGL_OFFSET_INVALID),
        (u64::MAX, 512, Status::SGL_OFFSET_INVALID),
    ] {
        let mut target = ready();
        target.receive(&capsule_with(offset, length)).unwrap();
        assert!(target.next().is_none());
        let resp = CapsuleResp::read_from_bytes(&take(&mut target)).unwrap();
        assert!(resp.rccqe.status().is(status), "{offset} {length}: {}", resp.rccqe.status());
    }
}

#[test]
fn the_success_flag_replaces_the_response_without_flow_control() {
    let mut target = ready();
    let connect = Command::from(FabricsCommand::Connect(Connect {
        recfmt: 0,
        qid: 1,
        sqsize_z: 3,
        cattr: ConnectAttributes::new().with_dis_sqflow(true),
        kato: 0,
    }));
    let mut pdu = capsule(connect.with_dptr(SglDescriptor::in_capsule(1024)));
    pdu.ch = ch(PduType::CAPSULE_CMD, 1024);
    target.receive(pdu.as_bytes()).unwrap();
    target.receive(&[0; 1024]).unwrap();
    let incoming = target.next().unwrap();
    target.respond(incoming.tag, Completion::success(0, 1), 0).unwrap();
    take(&mut target);
    let sqe = Command::read(1, 0, 1).with_cid(2).with_dptr(SglDescriptor::transport(512));
    target.receive(capsule(sqe).as_bytes()).unwrap();
    let incoming = target.next().unwrap();
    target.data(incoming.tag).unwrap().fill(3);
    target.respond(incoming.tag, Completion::success(0, 0), 512).unwrap();
    let bytes = take(&mut target);
    assert_eq!(bytes.len(), 24 + 512, "no response capsule");
    let (header, _) = DataHeader::read_from_prefix(&bytes).unwrap();
    assert!(header.ch.flags.success() && header.ch.flags.last_pdu());
}

#[test]
fn the_host_refuses_what_it_did_not_ask_for() {
    let ready = || {
        let mut host = host::Connection::new(host::Config::default());
        let mut target = target::Connection::new(target::Config::default());
        let hello: Vec<u8> = host.transmit().flatten().copied().collect();
        host.sent(hello.len());
        target.receive(&hello).unwrap();
        host.receive(&take(&mut target)).unwrap();
        host.submit(Command::read(1, 0, 1), host::Data::In(vec![0; 512])).unwrap();
        let len = host.transmit().map(<[u8]>::len).sum();
        host.sent(len);
        host
    };
    let resp =
        |cid| CapsuleResp { ch: ch(PduType::CAPSULE_RESP, 0), rccqe: Completion::new(cid, Status::SUCCESS) };
    let c2h = |cid, datao, datal| {
        let mut header = h2c(0, cid, datao, datal, true);
        header.ch.pdu_type = PduType::C2H_DATA;
        header
    };
    let r2t = R2t {
        ch: ch(PduType::R2T, 0),
        cccid: U16::ZERO,
        ttag: U16::ZERO,
        r2to: U32::ZERO,
        r2tl: U32::new(512),
        rsvd20: [0; 4],
    };
    for (bytes, fes) in [
        (resp(9).as_bytes().to_vec(), Fes::INVALID_HEADER_FIELD),
        (c2h(9, 0, 512).as_bytes().to_vec(), Fes::INVALID_HEADER_FIELD),
        (c2h(0, 512, 512).as_bytes().to_vec(), Fes::DATA_OUT_OF_RANGE),
        (c2h(0, 0, 1024).as_bytes().to_vec(), Fes::DATA_OUT_OF_RANGE),
        (r2t.as_bytes().to_vec(), Fes::SEQUENCE),
    ] {
        let mut host = ready();
        let Err(Error::Violation(fault)) = host.receive(&bytes) else { panic!("accepted {bytes:?}") };
        assert_eq!(fault.fes, fes, "{fault}");
        let sent: Vec<u8> = host.transmit().flatten().copied().collect();
        assert_eq!(TermReq::read_from_prefix(&sent).unwrap().0.ch.pdu_type, PduType::H2C_TERM_REQ);
    }
    let mut host = ready();
    host.receive(resp(0).as_bytes()).unwrap();
    assert_eq!(host.next().unwrap().received, 0);
}

#[test]
fn the_host_serves_as_many_r2ts_as_it_said_and_no_more() {
    let ready = |max_r2t_z| {
        let mut host = host::Connection::new(host::Config { max_r2t_z, in_capsule: 0, ..Default::default() });
        let mut target = target::Connection::new(target::Config::default());
        let hello: Vec<u8> = host.transmit().flatten().copied().collect();
        host.sent(hello.len());
        target.receive(&hello).unwrap();
        host.receive(&take(&mut target)).unwrap();
        host.submit(Command::write(1, 0, 24), host::Data::Out(vec![7; 12288])).unwrap();
        let len = host.transmit().map(<[u8]>::len).sum();
        host.sent(len);
        host
    };
    let r2t = |ttag, from, len| R2t {
        ch: ch(PduType::R2T, 0),
        cccid: U16::ZERO,
        ttag: U16::new(ttag),
        r2to: U32::new(from),
        r2tl: U32::new(len),
        rsvd20: [0; 4],
    };
    #[track_caller]
    fn refuses(host: &mut host::Connection, r2t: R2t, fes: Fes) {
        let Err(Error::Violation(fault)) = host.receive(r2t.as_bytes()) else { panic!("accepted") };
        assert_eq!(fault.fes, fes, "{fault}");
    }
    // The data of the first is still to be sent when the second comes.
    let mut host = ready(0);
    host.receive(r2t(1, 0, 4096).as_bytes()).unwrap();
    refuses(&mut host, r2t(2, 4096, 4096), Fes::LIMIT_EXCEEDED);
    let mut host = ready(1);
    host.receive(r2t(1, 0, 4096).as_bytes()).unwrap();
    host.receive(r2t(2, 4096, 4096).as_bytes()).unwrap();
    refuses(&mut host, r2t(3, 8192, 4096), Fes::LIMIT_EXCEEDED);
    // When it has gone out, the next may come.
    let mut host = ready(0);
    host.receive(r2t(1, 0, 4096).as_bytes()).unwrap();
    let sent: Vec<u8> = host.transmit().flatten().copied().collect();
    let (header, _) = DataHeader::read_from_prefix(&sent).unwrap();
    assert_eq!((header.ttag.get(), header.datao.get(), header.datal.get()), (1, 0, 4096));
    assert!(header.ch.flags.last_pdu());
    host.sent(sent.len());
    host.receive(r2t(1, 4096, 8192).as_bytes()).unwrap();
    // Nothing, too much, and what was asked for before.
    refuses(&mut ready(0), r2t(1, 0, 0), Fes::DATA_OUT_OF_RANGE);
    refuses(&mut ready(0), r2t(1, 0, 12292), Fes::DATA_OUT_OF_RANGE);
    refuses(&mut ready(0), r2t(1, 4096, 4096), Fes::DATA_OUT_OF_RANGE);
}

/// A first command (5) and a second one (6) of 8 KiB, with their data in the capsule or not.
fn half(cid: u16, transport: bool) -> Vec<u8> {
    let command = match cid {
        5 => nvme::IoCommand::Compare(nvme::io::Blocks::new(1, 0, 16)).into(),
        _ => Command::write(1, 0, 16),
    };
    let dptr = if transport { SglDescriptor::transport(8192) } else { SglDescriptor::in_capsule(8192) };
    let mut sqe = command.with_cid(cid).with_dptr(dptr);
    sqe.flags.set_fuse(cid as u8 - 4);
    let mut pdu = capsule(sqe);
    if transport {
        return pdu.as_bytes().to_vec();
    }
    pdu.ch = ch(PduType::CAPSULE_CMD, 8192);
    [pdu.as_bytes(), &vec![cid as u8; 8192]].concat()
}

/// A connection that is an I/O queue.
fn queue() -> target::Connection {
    let mut target = ready();
    let connect = Connect { recfmt: 0, qid: 1, sqsize_z: 15, cattr: ConnectAttributes::new(), kato: 0 };
    let sqe = Command::from(FabricsCommand::Connect(connect)).with_dptr(SglDescriptor::in_capsule(1024));
    let mut pdu = capsule(sqe);
    pdu.ch = ch(PduType::CAPSULE_CMD, 1024);
    target.receive(&[pdu.as_bytes(), &[0; 1024]].concat()).unwrap();
    let incoming = target.next().unwrap();
    target.respond(incoming.tag, Completion::success(0, 0), 0).unwrap();
    take(&mut target);
    target
}

/// Commands that are passed on, and whether each is alone.
fn passed(target: &mut target::Connection) -> Vec<(u16, bool)> {
    std::iter::from_fn(|| target.next()).map(|i| (i.sqe.cid.get(), i.alone)).collect()
}

/// The transfer tags of the R2Ts that were sent, by command.
fn asked_for(target: &mut target::Connection) -> Vec<(u16, u16)> {
    let sent = take(target);
    let r2t = |bytes| R2t::read_from_bytes(bytes).unwrap();
    sent.chunks(24).map(r2t).map(|r| (r.cccid.get(), r.ttag.get())).collect()
}

/// Sends what an R2T asked for.
fn send(target: &mut target::Connection, (cid, ttag): (u16, u16)) {
    for (datao, last) in [(0, false), (4096, true)] {
        let pdu = h2c(ttag, cid, datao, 4096, last);
        target.receive(&[pdu.as_bytes(), &[cid as u8; 4096]].concat()).unwrap();
    }
}

#[test]
fn fused_commands_are_passed_on_together_in_their_order() {
    let flush = || capsule(Command::flush(1).with_cid(9).with_dptr(SglDescriptor::transport(0)));
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        for second_data_first in [false, true] {
            let mut target = queue();
            target.receive(&half(5, first)).unwrap();
            assert_eq!(passed(&mut target), [], "it waits for the next");
            target.receive(&half(6, second)).unwrap();
            // What comes later need not wait, unless both are there already.
            target.receive(flush().as_bytes()).unwrap();
            let mut tags = asked_for(&mut target);
            assert_eq!(tags.len(), usize::from(first) + usize::from(second));
            let mut all = passed(&mut target);
            if second_data_first {
                tags.reverse();
            }
            let outstanding = tags.len();
            for (i, tag) in tags.into_iter().enumerate() {
                assert_eq!(all, [(9, false)]);
                send(&mut target, tag);
                let more = passed(&mut target);
                assert_eq!(more.is_empty(), i + 1 < outstanding);
                all.extend(more);
            }
            let pair = [(5, false), (6, false)];
            let expected = if outstanding == 0 {
                [pair[0], pair[1], (9, false)]
            } else {
                [(9, false), pair[0], pair[1]]
            };
            assert_eq!(all, expected);
        }
    }
}

#[test]
fn a_first_command_that_another_follows_is_alone() {
    for transport in [false, true] {
        let mut target = queue();
        target.receive(&half(5, transport)).unwrap();
        let tags = asked_for(&mut target);
        let flush = capsule(Command::flush(1).with_cid(9).with_dptr(SglDescriptor::transport(0)));
        target.receive(flush.as_bytes()).unwrap();
        // A second one that comes too late is none of a pair.
        target.receive(&half(6, false)).unwrap();
        let mut all = passed(&mut target);
        tags.into_iter().for_each(|tag| send(&mut target, tag));
        all.extend(passed(&mut target));
        let expected = match transport {
            false => [(5, true), (9, false), (6, false)],
            true => [(9, false), (6, false), (5, true)],
        };
        assert_eq!(all, expected);
    }
    // Of two first ones, the second may have a second.
    let mut target = queue();
    for cid in [5, 5, 6] {
        target.receive(&half(cid, false)).unwrap();
    }
    assert_eq!(passed(&mut target), [(5, true), (5, false), (6, false)]);
}

#[test]
fn a_half_that_fails_before_the_controller_sees_it_takes_the_other_along() {
    let failed = Status::ABORTED_FAILED_FUSED;
    let wrong = Status::SGL_TYPE_INVALID;
    // Too much data for a transfer, in the first or the second.
    let broken = |cid| {
        let mut sqe = Command::write(1, 0, 16).with_cid(cid);
        sqe.dptr = SglDescriptor::transport(8192);
        sqe.dptr.id.set_kind(nvme::command::SglType::BIT_BUCKET);
        sqe.flags.set_fuse(cid as u8 - 4);
        capsule(sqe).as_bytes().to_vec()
    };
    for (pdus, expected) in [
        ([broken(5), half(6, false)], [(5, wrong), (6, failed)]),
        ([half(5, false), broken(6)], [(6, wrong), (5, failed)]),
        ([broken(5), half(6, true)], [(5, wrong), (6, failed)]),
        ([half(5, true), broken(6)], [(6, wrong), (5, failed)]),
    ] {
        let mut target = queue();
        let mut answers = Vec::new();
        for pdu in pdus {
            target.receive(&pdu).unwrap();
            answers.extend(take(&mut target));
        }
        // Answer what is asked for, in the same buffer as the answers.
        let at = answers.chunks(24).position(|pdu| pdu[0] == PduType::R2T.0);
        if let Some(at) = at {
            let r2t = R2t::read_from_bytes(&answers[at * 24..][..24]).unwrap();
            answers.drain(at * 24..(at + 1) * 24);
            send(&mut target, (r2t.cccid.get(), r2t.ttag.get()));
            answers.extend(take(&mut target));
        }
        assert_eq!(passed(&mut target), []);
        let answers: Vec<_> = answers
            .chunks(24)
            .map(|pdu| CapsuleResp::read_from_bytes(pdu).unwrap().rccqe)
            .map(|c| (c.cid.get(), c.status()))
            .collect();
        for ((cid, status), (expected, with)) in answers.iter().zip(expected) {
            assert!(*cid == expected && status.is(with), "{cid}: {status}");
        }
        assert_eq!((answers.len(), target.in_flight()), (2, 0));
    }
}
