//! Structures: what the compile-time assertions do not say.

use nvme::command::SglType;
use nvme::feature::{InterruptCoalescing, InterruptVectorConfiguration};
use nvme::identify::*;
use nvme::log::*;
use nvme::nqn::NqnError;
use nvme::property::*;
use nvme::status::Sct;
use nvme::zerocopy::{FromBytes, FromZeros, IntoBytes};
use nvme::{Completion, Csi, Nqn, SglDescriptor, Status, Version};
use proptest::prelude::*;

#[test]
fn status_bits_and_words() {
    let status = Status::LBA_OUT_OF_RANGE.with_dnr();
    assert_eq!((status.sct(), status.sc(), status.dnr(), status.more()), (Sct::GENERIC, 0x80, true, false));
    assert!(status.is(Status::LBA_OUT_OF_RANGE));
    assert_eq!(status.to_string(), "LBA Out of Range (SCT 0h, SC 80h, DNR)");
    assert_eq!(Status::UNRECOVERED_READ_ERROR.0, 0x281);
    assert_eq!(Status(0x7FFF).to_string(), "Unknown status (SCT 7h, SC FFh, M, DNR)");

    let completion = Completion::new(9, status).with_result64(0x1122_3344_5566_7788);
    assert_eq!(completion.as_bytes()[14..16], (0x4080u16 << 1).to_le_bytes());
    assert_eq!(completion.status(), status);
    assert_eq!(completion.result64(), 0x1122_3344_5566_7788);
}

#[test]
fn bit_fields_sit_where_the_specification_has_them() {
    assert_eq!(Oacs::new().with_nms(true).as_bytes(), [8, 0]);
    assert_eq!(Oacs::new().with_glss(true).as_bytes(), [0, 2]);
    assert_eq!(Ctratt::new().with_nsets(true).with_egs(true).as_bytes(), [0x14, 0, 0, 0]);
    assert_eq!(Oncs::new().with_nvmdsmsv(true).with_tss(true).as_bytes(), [0x44, 0]);
    assert_eq!(Sgls::new().with_sgls(1).with_offset(true).with_transport(true).as_bytes(), [1, 0, 0x30, 0]);
    assert_eq!(Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).as_bytes(), [1, 0, 0x46, 0]);
    assert_eq!(Cc::enabled(Cap::new().with_css(0x41)).as_bytes(), [0x61, 0, 0x46, 0]);
    assert_eq!(Cc::enabled(Cap::new().with_css(1)).as_bytes(), [1, 0, 0x46, 0]);
    assert_eq!(Aqa::new().with_asqs_z(31).with_acqs_z(0x123).as_bytes(), [31, 0, 0x23, 1]);
    let coalescing = InterruptCoalescing::new().with_thr_z(3).with_time(5);
    assert_eq!(coalescing.as_bytes(), [3, 5, 0, 0]);
    assert_eq!(InterruptVectorConfiguration::new().with_iv(7).with_cd(true).as_bytes(), [7, 0, 1, 0]);
    let prps = SglDescriptor::of_prps([0x1008, 0x2000]);
    assert_eq!((prps.addr.get(), prps.length.get(), prps.prps()), (0x1008, 0x2000, [0x1008, 0x2000]));
    assert_eq!(SglDescriptor::list(SglType::LAST_SEGMENT, 0x10, 32).as_bytes()[15], 0x30);
    assert_eq!(Csts::new().with_rdy(true).with_shst(Shst::COMPLETE).as_bytes(), [9, 0, 0, 0]);
    let cap = Cap::new().with_mqes_z(1023).with_cqr(true).with_to(20).with_css(1).with_crms(1);
    assert_eq!(cap.as_bytes(), [0xFF, 3, 1, 20, 0x20, 0, 0, 8]);
    assert_eq!(Flbas::from_format_index(0x21).as_bytes(), [0x41]);
    assert_eq!(Flbas::from_bits(0x41).format_index(), 0x21);
    assert_eq!(Version::V2_1.0, 0x0002_0100);
    assert_eq!(Version::V2_1.to_string(), "2.1.0");
}

#[test]
fn nqns() {
    let nqn: Nqn = "nqn.2026-11.org.example:drive".parse().unwrap();
    assert_eq!(Nqn::from_field(&nqn.to_field()), Ok(nqn));
    assert!(Nqn::new(Nqn::DISCOVERY).is_ok());
    assert_eq!(Nqn::new(&format!("nqn.2026-11.{}", "x".repeat(211))).map(|n| n.as_str().len()), Ok(223));
    assert_eq!(Nqn::new(&format!("nqn.2026-11.{}", "x".repeat(212))), Err(NqnError::TooLong));
    for bad in ["", "nqn.", "iqn.2026-11.org", "nqn.2026-1.org", "nqn.2026-11.", "nqn.2026-11.a\nb"] {
        assert_eq!(Nqn::new(bad), Err(NqnError::Form), "{bad:?}");
    }
    assert_eq!(Nqn::from_field(&[b'n'; 256]), Err(NqnError::TooLong));
    let mut field = nqn.to_field();
    field[20] = 0xFF;
    assert_eq!(Nqn::from_field(&field), Err(NqnError::NotUtf8));
    assert_eq!(
        Nqn::from_uuid([0x0F, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]).as_str(),
        "nqn.2014-08.org.nvmexpress:uuid:0f010203-0405-0607-0809-0a0b0c0d0e0f"
    );
}

#[test]
fn lists() {
    assert_eq!(NamespaceList::new(1..=2000).iter().count(), 1024);
    assert_eq!(ControllerList::new([1, 2, 5]).iter().collect::<Vec<_>>(), [1, 2, 5]);
    let mut hostile = EnduranceGroupList::new([1]);
    hostile.num.set(0xFFFF);
    assert_eq!(hostile.iter().count(), 2047);
    assert_eq!(ChangedNamespaces::new(1..=1024).iter().count(), 1024);
    assert_eq!(ChangedNamespaces::new(1..=1025).iter().collect::<Vec<_>>(), [0xFFFF_FFFF]);
    let mut sets = NvmSetList::new([NvmSetAttributes::default(); 2]);
    assert_eq!(sets.entries().len(), 2);
    sets.num = 255;
    assert_eq!(sets.entries().len(), 31);
}

#[test]
fn descriptors_round_trip() {
    let ids = [
        NamespaceIdDescriptor::Nguid([7; 16]),
        NamespaceIdDescriptor::Csi(Csi::NVM),
        NamespaceIdDescriptor::Uuid([9; 16]),
        NamespaceIdDescriptor::Eui64([3; 8]),
    ];
    let mut page = [0xFF; 4096];
    NamespaceIdDescriptor::write_list(&ids, &mut page);
    assert_eq!(NamespaceIdDescriptor::read_list(&page).collect::<Vec<_>>(), ids);
}

#[test]
fn ocp_guid_is_in_the_order_of_the_page() {
    assert_eq!(OCP_SMART_GUID[..4], [0xC5, 0xAF, 0x10, 0x28]);
    assert_eq!(OCP_SMART_GUID[12..], [0xC9, 0x14, 0xD5, 0xAF]);
    assert_eq!(RawNormalized::new(0x1234_5678_9ABC, 98).raw(), 0x1234_5678_9ABC);
}

#[test]
fn every_latency_bucket_starts_where_the_one_before_ends() {
    for bucket in 0..LATENCY_BUCKETS {
        let low = latency_bucket_low(bucket);
        assert_eq!(latency_bucket(low), bucket);
        if bucket > 0 {
            assert_eq!(latency_bucket(low - 1), bucket - 1);
        }
    }
    assert_eq!(latency_bucket(u64::MAX), LATENCY_BUCKETS - 1);
    let mut histogram = LatencyHistogram::default();
    assert_eq!(histogram.percentile(1, 2), None);
    for ns in [100, 2000, 2000, 1 << 40] {
        let count = &mut histogram.count[latency_bucket(ns)];
        count.set(count.get() + 1);
    }
    assert_eq!(histogram.percentile(1, 4), Some(1024));
    assert_eq!(histogram.percentile(3, 4), Some(2048));
    assert_eq!(histogram.percentile(1, 1), Some(u64::MAX));
}

proptest! {
    #[test]
    fn any_latency_is_within_its_bucket(ns: u64) {
        let bucket = latency_bucket(ns);
        prop_assert!(latency_bucket_low(bucket) <= ns);
        prop_assert!(ns < latency_bucket_low(bucket + 1) || bucket == LATENCY_BUCKETS - 1);
    }

    #[test]
    fn any_bytes_are_a_list_of_descriptors(page in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = NamespaceIdDescriptor::read_list(&page).count();
    }

    #[test]
    fn any_bytes_are_a_structure(seed in prop::collection::vec(any::<u8>(), 4096)) {
        let ns = IdentifyNamespace::read_from_bytes(&seed).unwrap();
        let _ = (ns.format().data_bytes(), format!("{ns:?}"));
        let ctrl = IdentifyController::read_from_bytes(&seed).unwrap();
        let _ = (ascii_text(&ctrl.sn).len(), Nqn::from_field(&ctrl.subnqn), format!("{ctrl:?}"));
        let mut histogram = LatencyHistogram::new_zeroed();
        histogram.as_mut_bytes().copy_from_slice(&seed[..1552]);
        let _ = histogram.percentile(999, 1000);
    }
}
