//! Names of InnoDB's settings, so that a misspelt one is told.

use crate::settings::passed_over;

/// Settings of any release series of MySQL, Percona Server and MariaDB, without `innodb_` before them (their reference manuals).
const KNOWN_SETTINGS: &str = "adaptive_flushing adaptive_flushing_lwm adaptive_hash_index adaptive_hash_index_cells \
     adaptive_hash_index_parts adaptive_max_sleep_delay additional_mem_pool_size alter_copy_bulk \
     api_bk_commit_interval api_disable_rowlock api_enable_binlog api_enable_mdl api_trx_level autoextend_increment \
     autoinc_lock_mode background_scrub_data_compressed background_scrub_data_uncompressed binlog_directory \
     binlog_state_interval buf_dump_status_frequency buffer_page buffer_page_lru buffer_pool_chunk_size \
     buffer_pool_debug buffer_pool_dump_at_shutdown buffer_pool_dump_now buffer_pool_dump_pct buffer_pool_filename \
     buffer_pool_in_core_dump buffer_pool_in_core_file buffer_pool_instances buffer_pool_load_abort \
     buffer_pool_load_at_startup buffer_pool_load_now buffer_pool_size buffer_pool_size_auto_min \
     buffer_pool_size_max buffer_pool_stats change_buffer_max_size change_buffering checksum_algorithm checksums \
     cleaner_lsn_age_factor cmp cmp_per_index cmp_per_index_enabled cmp_per_index_reset cmp_reset cmpmem \
     cmpmem_reset commit_concurrency compressed_columns_threshold compressed_columns_zip_level \
     compression_algorithm compression_default compression_failure_threshold_pct compression_level \
     compression_pad_pct_max concurrency_tickets corrupt_table_action data_file_buffering data_file_path \
     data_file_write_through data_home_dir ddl_buffer_size ddl_threads deadlock_detect deadlock_report \
     dedicated_server default_encryption_key_id default_row_format defragment defragment_fill_factor \
     defragment_fill_factor_n_recs defragment_frequency defragment_n_pages defragment_stats_accuracy directories \
     disable_sort_file_cache disallow_writes doublewrite doublewrite_batch_size doublewrite_dir doublewrite_files \
     doublewrite_pages empty_free_list_algorithm encrypt_log encrypt_online_alter_logs encrypt_tables \
     encrypt_temporary_tables encryption_rotate_key_age encryption_rotation_iops encryption_threads \
     extend_and_initialize fast_shutdown fatal_semaphore_wait_threshold file_format file_format_check \
     file_format_max file_io_threads file_per_table fill_factor flush_log_at_timeout flush_log_at_trx_commit \
     flush_method flush_neighbors flush_sync flushing_avg_loops force_index_records_in_range force_load_corrupted \
     force_primary_key force_recovery fsync_threshold ft_aux_table ft_being_deleted ft_cache_size ft_config \
     ft_default_stopword ft_deleted ft_enable_diag_print ft_enable_stopword ft_index_cache ft_index_table \
     ft_max_token_size ft_min_token_size ft_num_word_optimize ft_result_cache_limit ft_server_stopword_table \
     ft_sort_pll_degree ft_total_cache_size ft_user_stopword_table idle_flush_pct immediate_scrub_data_uncompressed \
     instant_alter_column_allowed io_capacity io_capacity_max large_prefix linux_aio lock_wait_timeout lock_waits \
     locking_fake_changes locks locks_unsafe_for_binlog log_arch_dir log_archive log_buffer_size log_checkpoint_now \
     log_checksums log_compressed_pages log_file_buffering log_file_mmap log_file_size log_file_write_through \
     log_files_in_group log_group_home_dir log_optimize_ddl log_recovery_start log_recovery_target \
     log_spin_cpu_abs_lwm log_spin_cpu_pct_hwm log_spin_wait_delay log_wait_for_flush_spin_hwm log_write_ahead_size \
     log_writer_threads lru_scan_depth max_bitmap_file_size max_dirty_pages_pct max_dirty_pages_pct_lwm \
     max_purge_lag max_purge_lag_delay max_purge_lag_wait max_undo_log_size metrics mirrored_log_groups \
     monitor_disable monitor_enable monitor_reset monitor_reset_all mtflush_threads native_foreign_keys \
     numa_interleave old_blocks_pct old_blocks_time online_alter_log_max_size open_files optimize_fulltext_only \
     page_cleaners page_size parallel_doublewrite_path parallel_read_threads prefix_index_cluster_optimization \
     print_all_deadlocks print_ddl_logs print_lock_wait_timeout_info purge_batch_size purge_rseg_truncate_frequency \
     purge_threads random_read_ahead read_ahead_threshold read_io_threads read_only read_only_compressed \
     records_in_range redo_log_archive_dirs redo_log_capacity redo_log_encrypt replication_delay \
     rollback_on_timeout rollback_segments sched_priority_cleaner scrub_log segment_reserve_factor show_locks_held \
     simulate_comp_failures snapshot_isolation sort_buffer_size spin_wait_delay spin_wait_pause_multiplier \
     stats_auto_recalc stats_include_delete_marked stats_method stats_modified_counter stats_on_metadata \
     stats_persistent stats_persistent_sample_pages stats_sample_pages stats_traditional \
     stats_transient_sample_pages status_file status_output status_output_locks strict_mode support_xa \
     sync_array_size sync_debug sync_spin_loops sys_columns sys_fields sys_foreign sys_foreign_cols sys_indexes \
     sys_tables sys_tablespaces sys_tablestats sys_virtual table_locks tablespaces_encryption temp_data_file_path \
     temp_tablespaces_dir thread_concurrency thread_sleep thread_sleep_delay tmpdir track_changed_pages \
     truncate_temporary_tablespace_now trx undo_directory undo_log_encrypt undo_log_truncate undo_logs \
     undo_tablespaces use_atomic_writes use_fallocate use_fdatasync use_mtflush use_native_aio use_trim \
     validate_tablespace_paths version write_io_threads";

/// What is said of a setting that no server has; none of one that is known, or is none of InnoDB.
pub fn unknown(name: &str) -> Option<String> {
    let short = name.strip_prefix("innodb_")?;
    if KNOWN_SETTINGS.split_whitespace().any(|known| known == short) {
        return None;
    }
    let near = units::nearest(short, KNOWN_SETTINGS.split_whitespace());
    Some(passed_over(near.map(|near| format!("innodb_{near}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_told_and_others_are_left_alone() {
        let said = unknown("innodb_bufer_pool_size").unwrap();
        assert!(said.contains("did you mean innodb_buffer_pool_size?"), "{said}");
        assert!(!unknown("innodb_quite_something_else").unwrap().contains("did you mean"));
        for name in
            ["innodb_buffer_pool_size", "innodb_numa_interleave", "max_connections", "inodb_page_size"]
        {
            assert_eq!(unknown(name), None, "{name}");
        }
    }
}
