-- A store of schema 2, as kfuse wrote it on the last day of that schema: two choices, a timed one and an untimed one,
-- three measurements of which one is under way, and peaks.
PRAGMA application_id=1801876851;
PRAGMA user_version=2;
BEGIN TRANSACTION;
CREATE TABLE choices(region TEXT PRIMARY KEY NOT NULL, kernel, name, ops, target, sku, compiler, driver, config, effort, median_us, spread, samples, candidates, failed, cut, at, seal);
INSERT INTO choices VALUES('region 1','kernel 1','matmul_add','matmul + add','sm_90a','Fake GPU','fake 1','1.0','k=1,m=128',2,13.345678901234567347,0.012300000000000000169,10,40,3,1,1795303735.9431934356,'994eda00-f530-573c-867c-ac528cb6c357');
INSERT INTO choices VALUES('region 2','kernel 2','matmul_add','matmul + add','sm_90a','Fake GPU','fake 1','1.0','k=2,m=128',2,NULL,NULL,NULL,40,3,0,1795303735.9440529346,'c2569373-4055-5d40-a38f-b0c395a9341a');
CREATE TABLE measurements(kernel TEXT PRIMARY KEY NOT NULL, region, config, driver, estimate_us, median_us, spread, samples, failure, message, at, seal, boot TEXT, lost_boots INT NOT NULL DEFAULT 0);
INSERT INTO measurements VALUES('kernel 1','region 1','k=1,m=128','1.0',7.5,13.345678901234567347,0.012300000000000000169,10,NULL,NULL,1795303735.9438381194,'d7d1dd7d-05b9-5228-96c6-9c471463f938',NULL,0);
INSERT INTO measurements VALUES('kernel 3','region 1','k=1,m=128','1.0',7.5,NULL,NULL,NULL,NULL,NULL,1795303735.9441852569,NULL,'a boot',0);
INSERT INTO measurements VALUES('kernel 2','region 2','k=2,m=128','1.0',7.5,NULL,NULL,NULL,'wrong result','output 0 is off',1795303735.9441304206,'13216650-b6f8-58da-9dad-12c3195107a1',NULL,0);
CREATE TABLE peaks(sku TEXT PRIMARY KEY NOT NULL, read_bytes_per_us, write_bytes_per_us, copy_bytes_per_us, f32_burst, f32_sustained, half_burst, half_sustained, launch_us, seal);
INSERT INTO peaks VALUES('Fake GPU',4200000.0,3900000.0,4100000.0,67000000.0,60000000.0,790000000.0,700000000.0,1.3000000000000000444,'f6a601c1-8883-5ba7-9043-466513b8ea0f');
CREATE TABLE binaries(kernel TEXT PRIMARY KEY NOT NULL, registers, spill_bytes, stack_bytes, shared_bytes, compile_ms, log, image, seal);
INSERT INTO binaries VALUES('kernel 1',168,0,16,1024,31.399999999999998578,'ptxas info',X'01010101010101010101010101010101','ac11f8a5-895a-5bb8-b504-34a5ac72a500');
INSERT INTO binaries VALUES('kernel 2',168,0,16,1024,31.399999999999998578,'ptxas info',X'02020202020202020202020202020202','bde4adb2-75e3-5584-a525-4995476dcb15');
CREATE TABLE leases(region TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, beat INT NOT NULL);
CREATE INDEX choices_by_kernel ON choices(kernel);
CREATE INDEX measurements_by_region ON measurements(region);
COMMIT;
