-- A store of schema 3, as kfuse wrote it on the last day of that schema: two choices, a timed one and an untimed one,
-- three measurements of which one is under way, and peaks.
PRAGMA application_id=1801876851;
PRAGMA user_version=3;
BEGIN TRANSACTION;
CREATE TABLE binaries(kernel TEXT PRIMARY KEY NOT NULL, registers, spill_bytes, stack_bytes, shared_bytes, compile_ms, log, image, seal);
INSERT INTO "binaries" VALUES('kernel 1',168,0,16,1024,31.4,'ptxas info',X'01010101010101010101010101010101','ac11f8a5-895a-5bb8-b504-34a5ac72a500');
INSERT INTO "binaries" VALUES('kernel 2',168,0,16,1024,31.4,'ptxas info',X'02020202020202020202020202020202','bde4adb2-75e3-5584-a525-4995476dcb15');
CREATE TABLE choices(region TEXT PRIMARY KEY NOT NULL, kernel, name, ops, target, sku, compiler, driver, config, effort, median_us, spread, samples, candidates, failed, cut, at, seal, ruled_out DEFAULT 0, stop DEFAULT 'none', sm_mhz DEFAULT 0.0, memory_mhz DEFAULT 0.0, watts DEFAULT 0.0, celsius DEFAULT 0.0);
INSERT INTO "choices" VALUES('region 1','kernel 1','matmul_add','matmul + add','sm_90a','Fake GPU','fake 1','1.0','k=1,m=128',2,1.33456789012345673479e+01,0.0123,10,40,3,1,1.79530373594319343569e+09,'62aae9ff-56e8-5332-9559-3863f93c2bb6',0,'none',0,0,0,0);
INSERT INTO "choices" VALUES('region 2','kernel 2','matmul_add','matmul + add','sm_90a','Fake GPU','fake 1','1.0','k=2,m=128',2,NULL,NULL,NULL,40,3,0,1.79530373594405293462e+09,'b3956e55-93d1-5cdf-982a-f7a3492074c3',0,'none',0,0,0,0);
CREATE TABLE leases(region TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, beat INT NOT NULL);
CREATE TABLE measurements(kernel TEXT PRIMARY KEY NOT NULL, region, config, driver, estimate_us, median_us, spread, samples, failure, message, at, seal, boot TEXT, lost_boots INT NOT NULL DEFAULT 0);
INSERT INTO "measurements" VALUES('kernel 1','region 1','k=1,m=128','1.0',7.5,1.33456789012345673479e+01,0.0123,10,NULL,NULL,1.79530373594383811947e+09,'d7d1dd7d-05b9-5228-96c6-9c471463f938',NULL,0);
INSERT INTO "measurements" VALUES('kernel 3','region 1','k=1,m=128','1.0',7.5,NULL,NULL,NULL,NULL,NULL,1.7953037359441852569e+09,NULL,'a boot',0);
INSERT INTO "measurements" VALUES('kernel 2','region 2','k=2,m=128','1.0',7.5,NULL,NULL,NULL,'wrong result','output 0 is off',1.79530373594413042068e+09,'13216650-b6f8-58da-9dad-12c3195107a1',NULL,0);
CREATE TABLE peaks(sku TEXT PRIMARY KEY NOT NULL, read_bytes_per_us, write_bytes_per_us, copy_bytes_per_us, f32_burst, f32_sustained, half_burst, half_sustained, launch_us, seal, remark DEFAULT '');
INSERT INTO "peaks" VALUES('Fake GPU',4200000.0,3900000.0,4100000.0,67000000.0,60000000.0,790000000.0,700000000.0,1.3,'39aff3ae-3930-5989-95d7-0d53da0432e7','');
CREATE INDEX choices_by_kernel ON choices(kernel);
CREATE INDEX measurements_by_region ON measurements(region);
COMMIT;
