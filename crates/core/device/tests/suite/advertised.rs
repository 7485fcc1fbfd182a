//! What the drive says that it has is what it has: its logs of commands, features and logs, and the bits of
//! Identify, against what it really accepts. On drives with and without the options of a configuration.

use crate::common::Bench;
use device::Origin;
use media::Nanos;
use nvme::admin::SetFeatures;
use nvme::command::{AdminOpcode as Admin, FABRICS_OPCODE, IoOpcode};
use nvme::feature::{FeatureCapabilities, FeatureId, Select};
use nvme::identify::{Cns, IdentifyController};
use nvme::log::{CommandEffects, ErrorInformation, LogId, SupportedLogPages};
use nvme::{Command, Status};

/// Drives that have different things.
const DRIVES: [(&str, &[(&str, &str)]); 4] = [
    ("plain", &[]),
    ("with a volatile write cache", &[("[drive]", "[drive]\npower_loss_protection = false")]),
    ("with placement handles", &[("spare = \"28%\"\n", "spare = \"60%\"\nplacement = { handles = 4 }\n")]),
    (
        "with windows",
        &[
            ("[drive]", "[drive]\ntiming = true"),
            ("spare = \"28%\"\n", "spare = \"60%\"\nwindow = { superblocks = 12, time = \"2s\" }\n"),
        ],
    ),
];

/// Each drive with what it is called.
fn drives() -> impl Iterator<Item = (&'static str, Bench)> {
    DRIVES.iter().map(|(name, changes)| (*name, Bench::with_namespaces(changes)))
}

fn effects(b: &mut Bench) -> CommandEffects {
    b.ask(Command::get_log_page(LogId::COMMAND_EFFECTS, 0, 0, 0, 4096))
}

/// Support and effects of every feature.
fn features(b: &mut Bench) -> Vec<u32> {
    let (_, log) = b.admin_ok(Command::get_log_page(LogId::FEATURE_EFFECTS, 0, 0, 0, 1024), &[]);
    log.as_chunks::<4>().0.iter().map(|entry| u32::from_le_bytes(*entry)).collect()
}

fn logs(b: &mut Bench) -> Vec<bool> {
    let log: SupportedLogPages = b.ask(Command::get_log_page(LogId::SUPPORTED, 0, 0, 0, 1024));
    log.lid.iter().map(|entry| entry.lsupp()).collect()
}

/// The newest entry of the Error Information log: status, and byte of the command.
fn error(b: &mut Bench) -> (Status, u16) {
    let entry: ErrorInformation = b.ask(Command::get_log_page(LogId::ERROR, 0, 0, 0, 64));
    (entry.status(), entry.pel.get())
}

#[test]
fn the_log_of_logs_is_true() {
    for (name, mut b) in drives() {
        let advertised = logs(&mut b);
        assert_eq!(advertised.len(), 256);
        for (lid, advertised) in (0..=255).zip(advertised) {
            // Of the first NVM Set, Endurance Group or whatever an index means.
            let mut command = Command::get_log_page(LogId(lid), 0, 1, 0, 512);
            if lid == LogId::PERSISTENT_EVENT.0 {
                command.cdw10.set(command.cdw10.get() | 1 << 8);
            }
            let status = b.admin(command, &[]).0.status();
            // Placement is there, and not enabled yet.
            let has = status.is_success() || status.is(Status::FDP_DISABLED);
            assert_eq!(has, advertised, "drive {name}, log {lid:02x}h: {status}");
            assert_eq!(!has, status.is(Status::INVALID_LOG_PAGE), "drive {name}, log {lid:02x}h: {status}");
        }
    }
}

#[test]
fn the_log_of_commands_is_true() {
    for (name, mut b) in drives() {
        let effects = effects(&mut b);
        for opcode in 0..=255u8 {
            let status = b.io(Command::new(opcode, 1), &[0; 4096]).0;
            // Fabrics commands are not of a command set, and have no effects to tell.
            let has = !status.is(Status::INVALID_OPCODE) && opcode != FABRICS_OPCODE;
            let advertised = effects.iocs[usize::from(opcode)];
            assert_eq!(advertised.csupp(), has, "drive {name}, I/O command {opcode:02x}h: {status}");
            assert!(has || advertised.into_bits().get() == 0, "drive {name}, I/O command {opcode:02x}h");
        }
        // A host from elsewhere cannot cut the power.
        let far = b.connect("far", Origin::Network);
        for opcode in 0..=255u8 {
            let io = b.submit(far, 0, &Command::new(opcode, 1), &[0; 4096]);
            b.run_until(Nanos(b.now.0 + 1_000_000));
            // One that is not answered by then is being executed.
            let status = b.done.get(&io).map(|(completion, _)| completion.status());
            let refused = status.is_some_and(|status| status.is(Status::INVALID_OPCODE));
            let has = !refused && opcode != FABRICS_OPCODE;
            let advertised = effects.acs[usize::from(opcode)];
            assert_eq!(advertised.csupp(), has, "drive {name}, admin command {opcode:02x}h: {status:?}");
            assert!(has || advertised.into_bits().get() == 0, "drive {name}, admin command {opcode:02x}h");
        }
    }
}

#[test]
fn the_log_of_features_is_true() {
    for (name, mut b) in drives() {
        let features = features(&mut b);
        for (fid, entry) in (0..=255).map(FeatureId).zip(features) {
            let advertised = entry & 1 != 0;
            let what = format!("drive {name}, feature {fid:?}");
            let get = Command::get_features(fid, 0, Select::SUPPORTED_CAPABILITIES);
            let (got, _) = b.admin(get, &[]);
            if !advertised {
                assert_eq!(entry, 0, "{what}");
                assert_eq!((error(&mut b).0.code(), error(&mut b).1), (Status::INVALID_FIELD, 40), "{what}");
                let (got, _) = b.admin(Command::set_features(fid, 0, 0), &[0; 4096]);
                assert!(got.status().is(Status::INVALID_FIELD), "{what}: {}", got.status());
                assert_eq!(error(&mut b).1, 40, "{what}");
                continue;
            }
            assert_eq!(got.status(), Status::SUCCESS, "{what}");
            let capabilities = FeatureCapabilities::from_bits(got.dw0);
            // Its scope is exactly one, the namespace for one that is namespace specific.
            let scope = entry >> 20;
            assert!(scope.is_power_of_two(), "{what}: scope {scope:x}h");
            assert_eq!(scope == 1, capabilities.namespace_specific(), "{what}");
            // Of this controller, this namespace or the first set or group.
            let nsid = u32::from(capabilities.namespace_specific());
            let mut get = Command::get_features(fid, nsid, Select::CURRENT);
            get.cdw11.set(1);
            let (got, _) = b.admin(get, &[]);
            let unknown = got.status().is(Status::INVALID_FIELD) && error(&mut b).1 == 40;
            assert!(!unknown, "{what}: {}", got.status());
            // Whether it can be saved, whatever else is wrong with this value of it.
            let set = SetFeatures { nsid, fid, sv: true, uidx: 0, cdw11: 1, cdw12: 0, cdw13: 0, cdw15: 0 };
            let (got, _) = b.admin(set, &[0; 4096]);
            let refused = got.status().is(Status::FEATURE_NOT_SAVEABLE);
            assert_eq!(!refused, capabilities.saveable(), "{what}: {}", got.status());
        }
    }
}

#[test]
fn the_bits_of_identify_are_true() {
    for (name, mut b) in drives() {
        let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
        let (effects, features, logs) = (effects(&mut b), features(&mut b), logs(&mut b));
        let admin = |opcodes: &[Admin]| {
            let mut found = opcodes.iter().map(|o| effects.acs[usize::from(o.0)].csupp());
            let first = found.next();
            assert!(found.all(|f| Some(f) == first), "drive {name}: all of {opcodes:?}, or none");
            first == Some(true)
        };
        let io = |opcode: IoOpcode| effects.iocs[usize::from(opcode.0)].csupp();
        let feature = |fid: FeatureId| features[usize::from(fid.0)] & 1 != 0;
        let log = |lid: LogId| logs[usize::from(lid.0)];
        let (oacs, oncs, lpa, ctratt, oaes) = (id.oacs, id.oncs, id.lpa, id.ctratt, id.oaes);
        let reservations = [
            IoOpcode::RESERVATION_REGISTER,
            IoOpcode::RESERVATION_REPORT,
            IoOpcode::RESERVATION_ACQUIRE,
            IoOpcode::RESERVATION_RELEASE,
        ];
        let placement =
            [LogId::FDP_CONFIGURATIONS, LogId::RUH_USAGE, LogId::FDP_STATISTICS, LogId::FDP_EVENTS];
        let cases = [
            ("Security", oacs.ssrs(), admin(&[Admin::SECURITY_SEND, Admin::SECURITY_RECEIVE])),
            ("Format NVM", oacs.fnvms(), admin(&[Admin::FORMAT_NVM])),
            ("firmware", oacs.fwds(), admin(&[Admin::FIRMWARE_COMMIT, Admin::FIRMWARE_IMAGE_DOWNLOAD])),
            ("namespaces", oacs.nms(), admin(&[Admin::NAMESPACE_MANAGEMENT, Admin::NAMESPACE_ATTACHMENT])),
            ("self-test", oacs.dsts(), admin(&[Admin::DEVICE_SELF_TEST])),
            ("log of self-tests", oacs.dsts(), log(LogId::DEVICE_SELF_TEST)),
            ("directives", oacs.dirs(), admin(&[Admin::DIRECTIVE_SEND, Admin::DIRECTIVE_RECEIVE])),
            ("NVMe-MI", oacs.nsrs(), admin(&[Admin::NVME_MI_SEND, Admin::NVME_MI_RECEIVE])),
            ("virtualization", oacs.vms(), admin(&[Admin::VIRTUALIZATION_MANAGEMENT])),
            ("doorbells", oacs.dbcs(), admin(&[Admin::DOORBELL_BUFFER_CONFIG])),
            ("Get LBA Status", oacs.glss(), admin(&[Admin::GET_LBA_STATUS])),
            ("Lockdown", oacs.cfls(), admin(&[Admin::LOCKDOWN])),
            ("capacity", ctratt.fcm() || ctratt.vcm(), admin(&[Admin::CAPACITY_MANAGEMENT])),
            ("Sanitize", id.sanicap.into_bits().get() & 7 != 0, admin(&[Admin::SANITIZE])),
            ("log of Sanitize", admin(&[Admin::SANITIZE]), log(LogId::SANITIZE_STATUS)),
            ("Compare", oncs.nvmcmps(), io(IoOpcode::COMPARE)),
            ("Write Uncorrectable", oncs.nvmwusv(), io(IoOpcode::WRITE_UNCORRECTABLE)),
            ("Dataset Management", oncs.nvmdsmsv(), io(IoOpcode::DATASET_MANAGEMENT)),
            ("Write Zeroes", oncs.nvmwzsv(), io(IoOpcode::WRITE_ZEROES)),
            ("Verify", oncs.nvmvfys(), io(IoOpcode::VERIFY)),
            ("Copy", oncs.nvmcpys(), io(IoOpcode::COPY)),
            ("reservations", oncs.reservs(), reservations.iter().all(|o| io(*o))),
            ("some of reservations", oncs.reservs(), reservations.iter().any(|o| io(*o))),
            ("log of reservations", oncs.reservs(), log(LogId::RESERVATION_NOTIFICATION)),
            ("mask of reservations", oncs.reservs(), feature(FeatureId::RESERVATION_NOTIFICATION_MASK)),
            ("persistence of reservations", oncs.reservs(), feature(FeatureId::RESERVATION_PERSISTENCE)),
            ("Timestamp", oncs.tss(), feature(FeatureId::TIMESTAMP)),
            ("volatile write cache", id.vwc.present(), feature(FeatureId::VOLATILE_WRITE_CACHE)),
            ("log of commands", lpa.cses(), log(LogId::COMMAND_EFFECTS)),
            ("host's telemetry", lpa.ts(), log(LogId::TELEMETRY_HOST)),
            ("drive's telemetry", lpa.ts(), log(LogId::TELEMETRY_CONTROLLER)),
            ("Persistent Event log", lpa.pes(), log(LogId::PERSISTENT_EVENT)),
            ("log of logs", lpa.mlps(), log(LogId::SUPPORTED)),
            ("log of features", lpa.mlps(), log(LogId::FEATURE_EFFECTS)),
            ("ANA", id.cmic.anars(), log(LogId::ANA)),
            ("Endurance Groups", ctratt.egs(), log(LogId::ENDURANCE_GROUP)),
            ("their events", oaes.egealcn(), log(LogId::ENDURANCE_GROUP_EVENTS)),
            ("choice of them", oaes.egealcn(), feature(FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION)),
            ("windows", ctratt.plm(), log(LogId::PREDICTABLE_LATENCY)),
            ("events of windows", ctratt.plm() && oaes.pleln(), log(LogId::PREDICTABLE_LATENCY_EVENTS)),
            ("choice of windows", ctratt.plm(), feature(FeatureId::PREDICTABLE_LATENCY_CONFIG)),
            ("windows now", ctratt.plm(), feature(FeatureId::PREDICTABLE_LATENCY_WINDOW)),
            ("placement", ctratt.fdps(), feature(FeatureId::FDP) && feature(FeatureId::FDP_EVENTS)),
            ("logs of placement", ctratt.fdps(), placement.iter().all(|l| log(*l))),
            ("some logs of placement", ctratt.fdps(), placement.iter().any(|l| log(*l))),
            ("handles", ctratt.fdps(), io(IoOpcode::IO_MANAGEMENT_SEND)),
            ("status of handles", ctratt.fdps(), io(IoOpcode::IO_MANAGEMENT_RECEIVE)),
        ];
        for (what, said, is) in cases {
            assert_eq!(said, is, "drive {name}: {what}");
        }
    }
}
