//! The Streams directive, as hosts see it.

use crate::common::{Bench, initial, small};
use device::Origin;
use nvme::command::AdminOpcode;
use nvme::directive::*;
use nvme::io::Blocks;
use nvme::{AdminCommand, Command, IoCommand, Status, U32};

const FIELD: Status = Status::INVALID_FIELD;

fn drive(placement: &str) -> Bench {
    let spare = format!("spare = \"60%\"\nplacement = {{ handles = 4{placement} }}\n");
    let mut config = small(&[("spare = \"28%\"\n", &spare)]);
    for _ in 0..2 {
        config.namespaces.push(initial(1, 8 << 20));
    }
    Bench::new(config)
}

fn directive(nsid: u32, dtype: DirectiveType, doper: u8) -> Directive {
    Directive { nsid, dwords: 8, doper, dtype, dspec: 0, cdw12: 0 }
}

fn enable(nsid: u32, on: bool) -> AdminCommand {
    let cdw12 = EnableDirective::new().with_endir(on).with_tdtype(DirectiveType::STREAMS).into_bits().get();
    let command = directive(nsid, DirectiveType::IDENTIFY, operation::ENABLE);
    AdminCommand::DirectiveSend(Directive { cdw12, ..command })
}

fn identify_of(b: &mut Bench, nsid: u32) -> (u8, u8) {
    let command = directive(nsid, DirectiveType::IDENTIFY, operation::RETURN_PARAMETERS);
    let command = AdminCommand::DirectiveReceive(Directive { dwords: 1024, ..command });
    let parameters: DirectiveParameters = b.ask(command);
    (parameters.supported[0], parameters.enabled[0])
}

fn streams(doper: u8) -> Directive {
    directive(1, DirectiveType::STREAMS, doper)
}

fn parameters(b: &mut Bench) -> StreamsParameters {
    b.ask(AdminCommand::DirectiveReceive(streams(operation::RETURN_PARAMETERS)))
}

fn allocate(b: &mut Bench, count: u32) -> Result<u32, Status> {
    let command = Directive { cdw12: count, ..streams(operation::ALLOCATE_RESOURCES) };
    let (completion, _) = b.admin(AdminCommand::DirectiveReceive(command), &[]);
    completion.status().code().ok().map(|()| completion.dw0.get())
}

fn open(b: &mut Bench) -> Vec<u16> {
    let (_, data) = b.admin_ok(AdminCommand::DirectiveReceive(streams(operation::GET_STATUS)), &[]);
    let words: Vec<u16> = data.chunks_exact(2).map(|w| u16::from_le_bytes([w[0], w[1]])).collect();
    words[1..=usize::from(words[0])].to_vec()
}

fn write(nsid: u32, slba: u64, stream: u16) -> Command {
    IoCommand::Write(Blocks { dtype: 1, dspec: stream, ..Blocks::new(nsid, slba, 8) }).into()
}

#[test]
fn streams_are_enabled_opened_and_released() {
    let mut b = drive("");
    assert_eq!(identify_of(&mut b, 1), (3, 1));
    let data = [5; 32768];
    assert!(b.io(write(1, 0, 1), &data).0.is(FIELD), "not enabled");
    b.admin_ok(enable(1, true), &[]);
    assert_eq!(identify_of(&mut b, 1), (3, 3));
    assert_eq!(identify_of(&mut b, 2), (3, 1), "by namespace");
    for (place, stream) in (0..).zip([7, 0, 9, 7, 500]) {
        assert_eq!(b.io(write(1, place * 8, stream), &data).0, Status::SUCCESS);
    }
    assert_eq!(open(&mut b), [7, 9, 500]);
    let p = parameters(&mut b);
    assert_eq!((p.msl.get(), p.nssa.get(), p.nsso.get(), p.nsa.get(), p.nso.get()), (3, 0, 3, 0, 3));
    assert_eq!((p.sws.get(), p.sgs.get()), (2 * 3, 4 * 16));
    // Each has a superblock of its own, and a fourth is not opened: it is written like any other data.
    let unit = 4 * 2 * 48 * 4096;
    let room = |b: &Bench| -> Vec<u64> {
        (0..4)
            .map(|h| b.drive.ftl().reclaim_unit(ftl::SetId(0), h).map_or(0, |(_, room)| unit - room))
            .collect()
    };
    assert_eq!(room(&b), [32768, 65536, 32768, 32768]);
    assert_eq!(b.io(write(1, 600, 4), &data).0, Status::SUCCESS);
    assert_eq!(room(&b)[0], 65536);
    // Another host has none left, until one is released.
    let other = b.connect("other", Origin::InProcess);
    assert_eq!(b.on(other, 0, &enable(1, true).into(), &[]).0.status(), Status::SUCCESS);
    let release = Directive { dspec: 9, ..streams(operation::RELEASE_IDENTIFIER) };
    b.admin_ok(AdminCommand::DirectiveSend(release), &[]);
    assert_eq!(open(&mut b), [7, 500]);
    assert_eq!(b.on(other, 1, &write(1, 700, 1), &data).0.status(), Status::SUCCESS);
    assert_eq!(room(&b)[2], 65536);
    assert_eq!(b.read(1, 700, 8), data);
    // Disabled, everything is closed.
    b.admin_ok(enable(1, false), &[]);
    assert!(b.io(write(1, 0, 7), &data).0.is(FIELD));
}

#[test]
fn resources_are_allocated_for_a_namespace() {
    let mut b = drive("");
    b.admin_ok(enable(nvme::NSID_ALL, true), &[]);
    assert_eq!(identify_of(&mut b, 2), (3, 3));
    assert_eq!(allocate(&mut b, 0), Err(FIELD));
    assert_eq!(allocate(&mut b, 2), Ok(2));
    assert_eq!(allocate(&mut b, 1), Err(FIELD), "once");
    let data = [6; 32768];
    for stream in [1, 2, 3] {
        assert_eq!(b.io(write(1, 0, stream), &data).0, Status::SUCCESS);
    }
    assert_eq!(open(&mut b), [2, 3], "the oldest is closed for another");
    let p = parameters(&mut b);
    assert_eq!((p.nssa.get(), p.nsso.get(), p.nsa.get(), p.nso.get()), (1, 0, 2, 2));
    // The last one is the other namespace's, and then there is none.
    assert_eq!(b.io(write(2, 0, 1), &data).0, Status::SUCCESS);
    b.admin_ok(AdminCommand::DirectiveSend(streams(operation::RELEASE_RESOURCES)), &[]);
    assert_eq!(parameters(&mut b).nssa.get(), 2);
    assert_eq!(allocate(&mut b, 9), Ok(2));
    let mut command = streams(operation::ALLOCATE_RESOURCES);
    (command.nsid, command.cdw12) = (2, 5);
    assert_eq!(b.admin_ok(AdminCommand::DirectiveReceive(command), &[]).0, 1, "its own open one");
}

#[test]
fn illegal_combinations() {
    let mut b = drive("");
    let send = AdminCommand::DirectiveSend;
    let receive = AdminCommand::DirectiveReceive;
    let identify = |doper| directive(1, DirectiveType::IDENTIFY, doper);
    let placement = EnableDirective::new().with_endir(true).with_tdtype(DirectiveType::DATA_PLACEMENT);
    let rows = [
        ("parameters of streams that are not enabled", receive(streams(operation::RETURN_PARAMETERS)), FIELD),
        ("status of streams that are not enabled", receive(streams(operation::GET_STATUS)), FIELD),
        ("resources of streams that are not enabled", receive(streams(operation::ALLOCATE_RESOURCES)), FIELD),
        ("release of streams that are not enabled", send(streams(operation::RELEASE_RESOURCES)), FIELD),
        ("an unknown operation to receive", receive(identify(9)), FIELD),
        ("an unknown operation to send", send(identify(9)), FIELD),
        ("another directive", send(Directive { cdw12: placement.into_bits().get(), ..identify(1) }), FIELD),
        ("an unknown type", receive(directive(1, DirectiveType(9), 1)), FIELD),
        ("no namespace", enable(77, true), Status::INVALID_NAMESPACE),
        ("more than MDTS", receive(Directive { dwords: 1 << 30, ..identify(1) }), FIELD),
    ];
    for (name, command, status) in rows {
        let (got, _) = b.admin(command, &[]);
        assert!(got.status().is(status), "{name}: {}, not {status}", got.status());
    }
    // With Flexible Data Placement the handles are its.
    let mut b = drive(", fdp = true");
    assert_eq!(identify_of(&mut b, 1), (5, 5));
    let (got, _) = b.admin(enable(1, true), &[]);
    assert!(got.status().is(FIELD));
    // Without handles there are no directives.
    let mut b = Bench::with_namespaces(&[]);
    for opcode in [AdminOpcode::DIRECTIVE_SEND, AdminOpcode::DIRECTIVE_RECEIVE] {
        let (got, _) = b.admin(Command { cdw11: U32::new(1), ..Command::new(opcode.0, 1) }, &[]);
        assert!(got.status().is(Status::INVALID_OPCODE));
    }
}
